// Float64 throughout, parameters included: for comparing runs digit by digit, not for speed.
#include "kinora/plugin.hpp"
#include "kinora/precision.hpp"

namespace kinora {

class Fp64 final : public Precision<Tensor> {
 public:
  struct Options {};
  static void describe(Describe<Options>& d) {
    d.name("fp64").help("float64 for parameters, activations and products; to compare runs, slow");
    d.input("x", "[M, N]", "float");
    d.output("codes", "[M, N]", "float64").output("scales", "", "none").output("global_scale", "", "none");
    d.output("dequantized", "[M, N]", "float64");
  }
  explicit Fp64(const Options&) {}
  int32_t dtype() const override { return KINORA_FLOAT64; }
  std::vector<Tensor> quantize(const Tensor& x) override {
    const Tensor codes = x.to(KINORA_FLOAT64);
    return {codes, {}, {}, codes};
  }
};
KINORA_COMPONENT(Fp64)

}  // namespace kinora
