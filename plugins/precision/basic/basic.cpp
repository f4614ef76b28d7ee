// Precisions without quantised numbers: fp32, fp64 and bf16.
#include "kinora/bf16_link.hpp"
#include "kinora/plugin.hpp"
#include "kinora/precision.hpp"

namespace kinora {

// Float32 throughout: the chain is unchanged.
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
  int32_t dtype() const override { return KINORA_DTYPE_FLOAT32; }
  std::vector<Tensor> quantize(const Tensor& x) override {
    const Tensor codes = x.to(KINORA_DTYPE_FLOAT32);
    return {codes, {}, {}, codes};
  }
};
KINORA_COMPONENT(Fp32)

// Float64 throughout, parameters included: for comparing runs digit by digit, not for speed.
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
  int32_t dtype() const override { return KINORA_DTYPE_FLOAT64; }
  std::vector<Tensor> quantize(const Tensor& x) override {
    const Tensor codes = x.to(KINORA_DTYPE_FLOAT64);
    return {codes, {}, {}, codes};
  }
};
KINORA_COMPONENT(Fp64)

// bfloat16 operands for linear layers and attention; parameters, sums and (unless the option says otherwise)
// the residual stream stay float32.
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
  explicit Bf16(const Options& o)
      : stream_(o.stream == "bfloat16" ? KINORA_DTYPE_BFLOAT16 : KINORA_DTYPE_FLOAT32) {}

  const kinora_link* link() override { return link_.get(); }
  int32_t dtype() const override { return stream_; }
  std::vector<Tensor> quantize(const Tensor& x) override {
    const Tensor codes = x.to(KINORA_DTYPE_BFLOAT16);
    return {codes, {}, {}, codes.to(KINORA_DTYPE_FLOAT32)};
  }

 private:
  int32_t stream_;
  Bf16Link link_;
};
KINORA_COMPONENT(Bf16)

KINORA_PLUGIN(Fp32, Bf16, Fp64)

}  // namespace kinora
