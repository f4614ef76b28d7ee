// bfloat16 operands for linear layers and attention; parameters, sums and (unless the option says otherwise)
// the residual stream stay float32.
#include "kinora/plugin.hpp"
#include "kinora/precision.hpp"
#include "plugins/precision/basic/bf16_link.hpp"

namespace kinora {

class Bf16 final : public Precision<Tensor> {
 public:
  struct Options {
    std::string stream = "float32";
  };
  static void describe(Describe<Options>& d) {
    d.name("bf16").help("bfloat16 operands of linear layers and attention, float32 sums and parameters");
    d.option("stream", &Options::stream)
        .choices({"float32", "bfloat16"})
        .help("dtype of the residual stream; bfloat16 halves its memory and rounds every residual sum");
    d.input("x", "[M, N]", "float");
    d.output("codes", "[M, N]", "bfloat16").output("scales", "", "none").output("global_scale", "", "none");
    d.output("dequantized", "[M, N]", "float32");
  }
  explicit Bf16(const Options& o) : stream_(o.stream == "bfloat16" ? KINORA_BFLOAT16 : KINORA_FLOAT32) {}

  const kinora_link* link() override { return link_.get(); }
  int32_t dtype() const override { return stream_; }
  std::vector<Tensor> quantize(const Tensor& x) override {
    const Tensor codes = x.to(KINORA_BFLOAT16);
    return {codes, {}, {}, codes.to(KINORA_FLOAT32)};
  }

 private:
  int32_t stream_;
  Bf16Link link_;
};
KINORA_COMPONENT(Bf16)

}  // namespace kinora
