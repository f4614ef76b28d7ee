// Float32 throughout: the chain is unchanged.
#include "kinora/plugin.hpp"
#include "kinora/precision.hpp"

namespace kinora {

class Fp32 final : public Precision<Tensor> {
 public:
  struct Options {};
  static void describe(Describe<Options>& d) {
    d.name("fp32").help("float32 for parameters, activations and products");
    d.input("x", "[M, N]", "float");
    d.output("codes", "[M, N]", "float32").output("scales", "", "none").output("global_scale", "", "none");
    d.output("dequantized", "[M, N]", "float32");
  }
  explicit Fp32(const Options&) {}
  int32_t dtype() const override { return KINORA_FLOAT32; }
  std::vector<Tensor> quantize(const Tensor& x) override {
    const Tensor codes = x.to(KINORA_FLOAT32);
    return {codes, {}, {}, codes};
  }
};
KINORA_COMPONENT(Fp32)

}  // namespace kinora
