// precision/fp8: eight-bit linear layers (Micikevicius et al. 2022, arXiv 2209.05433), with the scales of
// TransformerEngine's current scaling, of DeepSeek-V3 (arXiv 2412.19437, section 3.3) or of MXFP8.
#include "kernels/fp4/quantize.hpp"
#include "kinora/plugin.hpp"
#include "kinora/precision.hpp"
#include "plugins/precision/quantised/common.hpp"
#include "plugins/precision/quantised/fp8_format.hpp"

namespace kinora::quantised {

class Fp8 final : public Precision<Tensor> {
 public:
  struct Options : CommonOptions {
    std::string scaling = "tensor", gradients = "e5m2", scale_rule = "exact";
    std::string block = "tensor", format = "e4m3";
  };
  static void describe(Describe<Options>& d);
  explicit Fp8(const Options& o);

  const kinora_link* link() override { return link_.get(); }
  int32_t dtype() const override { return stream_; }
  int64_t token_block() const override { return format_->group(); }
  std::vector<Tensor> quantize(const Tensor& x) override;

 private:
  static fp8::Format format_of(const std::string& name) {
    return name == "e4m3" ? fp8::Format::e4m3 : fp8::Format::e5m2;
  }
  fp8::Options shown_;     // by quantize()
  std::string of_linear_;  // an option that was given and is not quantize()'s; empty: none
  int32_t stream_;
  std::shared_ptr<const Fp8Format> format_;
  QuantisedLink link_;
};

void Fp8::describe(Describe<Options>& d) {
  d.name("fp8").help(
      "FP8 operands of linear layers: E4M3 forward, E5M2 or E4M3 gradients; float32 "
      "sums and parameters, bfloat16 attention");
  describe_common(d, "FP8");
  d.option("scaling", &Options::scaling)
      .choices({"tensor", "block", "mx"})
      .help(
          "scales: one for a tensor, by its current largest magnitude; 1x128 of activations and gradients "
          "with "
          "128x128 of weights; 1x32, powers of two (MXFP8)");
  d.option("gradients", &Options::gradients).choices({"e5m2", "e4m3"}).help("format of gradients");
  d.option("scale_rule", &Options::scale_rule)
      .choices({"exact", "up", "floor"})
      .help(
          "scale of a block: exact; up: the least power of two that holds it; floor: OCP's, which cuts off "
          "at "
          "most an eighth; mx has powers only, exact is up there");
  d.option("block", &Options::block)
      .choices({"tensor", "1x128", "128x128", "1x32"})
      .help("quantize only: values that share a scale");
  d.option("format", &Options::format).choices({"e4m3", "e5m2"}).help("quantize only: format of the codes");
  d.input("x", "[M, N]", "float", "a row-major matrix; must be finite");
  d.output("codes", "[M, N]", "uint8", "E4M3 or E5M2 bytes");
  d.output("scales", "[rows, blocks]", "float32",
           "x is about code * scale; of 1x32 they are E8M0 bytes, uint8; of a tensor [1, 1]");
  d.output("global_scale", "", "none");
  d.output("dequantized", "[M, N]", "float32");
}

Fp8::Fp8(const Options& o)
    : of_linear_(o.scaling != Options().scaling       ? "scaling"
                 : o.gradients != Options().gradients ? "gradients"
                                                      : o.of_linear()),
      stream_(o.dtype()),
      format_(std::make_shared<Fp8Format>(Fp8Format::Recipe{o.scaling == "tensor" ? Fp8Format::Scaling::tensor
                                                            : o.scaling == "block" ? Fp8Format::Scaling::block
                                                                                   : Fp8Format::Scaling::mx,
                                                            format_of(o.gradients),
                                                            fp8_scale_rule(o.scale_rule)})),
      link_(format_, o.of_link(o.block != Options().block     ? "block"
                               : o.format != Options().format ? "format"
                                                              : "")) {
  shown_.format = format_of(o.format);
  shown_.rule = fp8_scale_rule(o.scale_rule);
  shown_.scaling = o.block == "1x128"     ? fp8::Scaling::row
                   : o.block == "128x128" ? fp8::Scaling::square
                   : o.block == "1x32"    ? fp8::Scaling::mx
                                          : fp8::Scaling::tensor;
}

std::vector<Tensor> Fp8::quantize(const Tensor& given) {
  refuse_of_linear(of_linear_);
  const Tensor x = matrix_of(given, "FP8");
  const Shape n{x.size(0), x.size(1)};
  const bool one = shown_.scaling == fp8::Scaling::tensor, mx = shown_.scaling == fp8::Scaling::mx;
  const Tensor codes = empty_like(x, x.sizes(), KINORA_DTYPE_UINT8),
               scales = empty_like(x,
                                   {one ? 1 : fp4::divided_up(n.rows, fp8::block_rows(shown_.scaling)),
                                    one ? 1 : fp8::blocks_a_row(n, shown_.scaling)},
                                   mx ? KINORA_DTYPE_UINT8 : KINORA_DTYPE_FLOAT32),
               back = empty_like(x, x.sizes(), KINORA_DTYPE_FLOAT32);
  const auto amax = fp4::find_amax(n, x.data<float>(), false);
  refuse_non_finite(given, amax.non_finite, "FP8");
  fp8::quantize(n, x.data<float>(), shown_, amax.value, codes.data<uint8_t>(), scales.data<void>());
  fp8::dequantize(n, codes.data<uint8_t>(), scales.data<void>(), shown_, back.data<float>());
  return {codes, scales, {}, back};
}

KINORA_COMPONENT(Fp8)

}  // namespace kinora::quantised
