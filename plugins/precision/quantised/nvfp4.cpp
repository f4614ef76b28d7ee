// precision/nvfp4: four-bit linear layers with the recipe of NVIDIA's pretraining (arXiv 2509.25149), as
// TransformerEngine implements it, and the scale rules of Four Over Six (arXiv 2512.02010), as LongLive 2.0
// sets them.
#include "kinora/plugin.hpp"
#include "kinora/precision.hpp"
#include "plugins/precision/quantised/common.hpp"
#include "plugins/precision/quantised/nvfp4_format.hpp"

namespace kinora::quantised {
namespace {

const std::vector<std::string> kRules = {"none", "mse", "mae", "abs_max", "static_6", "static_4"};

}  // namespace

class Nvfp4 final : public Precision<Tensor> {
 public:
  struct Options : CommonOptions {
    std::string activations = "mse", weights = "static_6", gradients = "mse";
    bool square_weights = true, stochastic_gradients = true, gradient_rht = true;
    std::string block = "1x16", rounding = "nearest", scale_rule = "none";
    bool rht = false;
    int64_t seed = 0;
  };
  static void describe(Describe<Options>& d);
  explicit Nvfp4(const Options& o);

  const kinora_link* link() override { return link_.get(); }
  int32_t dtype() const override { return stream_; }
  int64_t token_block() const override { return fp4::kBlock; }
  std::vector<Tensor> quantize(const Tensor& x) override;

 private:
  static std::string of_quantize(const Options& o);
  static std::string of_linear(const Options& o);
  fp4::Options shown_;     // by quantize()
  std::string of_linear_;  // an option that was given and is not quantize()'s; empty: none
  int32_t stream_;
  QuantisedLink link_;
};

void Nvfp4::describe(Describe<Options>& d) {
  d.name("nvfp4").help(
      "NVFP4 operands of linear layers: E2M1 codes, E4M3 scales of 16 values, one "
      "float32 scale; float32 sums and parameters, bfloat16 attention");
  describe_common(d, "NVFP4");
  const std::string rules = "scale rule of ";
  d.option("activations", &Options::activations).choices(kRules).help(rules + "activations");
  d.option("weights", &Options::weights).choices(kRules).help(rules + "weights");
  d.option("gradients", &Options::gradients).choices(kRules).help(rules + "gradients");
  d.option("square_weights", &Options::square_weights)
      .help("16x16 blocks of weights, so that forward and backward see the same; else 1x16 along each sum");
  d.option("stochastic_gradients", &Options::stochastic_gradients)
      .help("stochastic rounding of gradients; else to nearest");
  d.option("gradient_rht", &Options::gradient_rht)
      .help("random Hadamard transform of 16 tokens on both operands of a weight's gradient");
  d.option("block", &Options::block)
      .choices({"1x16", "16x16"})
      .help("quantize only: values that share a scale");
  d.option("rht", &Options::rht)
      .help("quantize only: random Hadamard transform of whole blocks along a row before the rounding");
  d.option("rounding", &Options::rounding)
      .choices({"nearest", "stochastic"})
      .help("quantize only: rounding to E2M1");
  d.option("scale_rule", &Options::scale_rule)
      .choices(kRules)
      .help(
          "quantize only: none: TransformerEngine's; static_6, static_4: the block's largest value becomes 6 "
          "or "
          "4; mse, mae, abs_max: of 6 and 4 the one with the smaller error");
  d.option("seed", &Options::seed).help("seed of stochastic rounding in quantize and linear");
  d.input("x", "[M, N]", "float", "a row-major matrix; must be finite");
  d.output("codes", "[M, (N + 1) / 2]", "uint8", "two E2M1 codes a byte, the first in the low nibble");
  d.output("scales", "[M, (N + 15) / 16]", "uint8",
           "E4M3 bytes; a 16x16 block repeats its scale on each of its rows");
  d.output("global_scale", "[1]", "float32", "x is about code * scale / global_scale");
  d.output("dequantized", "[M, N]", "float32", "code * scale / global_scale; with rht of the transformed x");
}

std::string Nvfp4::of_quantize(const Options& o) {
  const Options plain;
  return o.block != plain.block             ? "block"
         : o.rht != plain.rht               ? "rht"
         : o.rounding != plain.rounding     ? "rounding"
         : o.scale_rule != plain.scale_rule ? "scale_rule"
                                            : "";
}

std::string Nvfp4::of_linear(const Options& o) {
  const Options plain;
  return o.activations != plain.activations                     ? "activations"
         : o.weights != plain.weights                           ? "weights"
         : o.gradients != plain.gradients                       ? "gradients"
         : o.square_weights != plain.square_weights             ? "square_weights"
         : o.stochastic_gradients != plain.stochastic_gradients ? "stochastic_gradients"
         : o.gradient_rht != plain.gradient_rht                 ? "gradient_rht"
                                                                : o.CommonOptions::of_linear();
}

Nvfp4::Nvfp4(const Options& o)
    : of_linear_(of_linear(o)),
      stream_(o.dtype()),
      link_(std::make_shared<Nvfp4Format>(
                Nvfp4Format::Recipe{scale_rule(o.activations), scale_rule(o.weights), scale_rule(o.gradients),
                                    o.square_weights, o.stochastic_gradients, o.gradient_rht}),
            o.of_link(of_quantize(o))) {
  shown_.rule = scale_rule(o.scale_rule);
  shown_.square = o.block == "16x16";
  shown_.hadamard = o.rht;
  shown_.stochastic = o.rounding == "stochastic";
  shown_.noise.seed = static_cast<uint64_t>(o.seed);
}

std::vector<Tensor> Nvfp4::quantize(const Tensor& given) {
  refuse_of_linear(of_linear_);
  const Tensor x = matrix_of(given, "NVFP4");
  const Shape n{x.size(0), x.size(1)};
  const auto amax = fp4::find_amax(n, x.data<float>(), shown_.hadamard);
  refuse_non_finite(given, amax.non_finite, "NVFP4");
  const Tensor codes = empty_like(x, {n.rows, fp4::code_bytes_a_row(n)}, KINORA_DTYPE_UINT8),
               scales = empty_like(x, {n.rows, fp4::blocks_a_row(n)}, KINORA_DTYPE_UINT8),
               global = empty_like(x, {1}, KINORA_DTYPE_FLOAT32),
               back = empty_like(x, x.sizes(), KINORA_DTYPE_FLOAT32);
  *global.data<float>() =
      fp4::quantize(n, x.data<float>(), shown_, amax.value, codes.data<uint8_t>(), scales.data<uint8_t>());
  fp4::dequantize(n, codes.data<uint8_t>(), scales.data<uint8_t>(), false, *global.data<float>(),
                  back.data<float>());
  return {codes, scales, global, back};
}

KINORA_COMPONENT(Nvfp4)
KINORA_PLUGIN(Fp8, Nvfp4)

}  // namespace kinora::quantised
