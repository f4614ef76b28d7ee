// Common parts of CLIP's two towers (Radford et al. 2021, arXiv 2103.00020): a pre-norm transformer
// layer.
//
// A text or an image is the same on every rank of the model, so its tokens are not a sequence of the context:
// seq is 0 throughout. B batch, L tokens, D hidden channels.
#pragma once
#include <string>
#include <vector>

#include "kinora/layers.hpp"
#include "kinora/model.hpp"
#include "kinora/renames.hpp"

namespace kinora::clip {

// The keys of transformers' configurations.
struct Config {
  int64_t hidden_size = 512, intermediate_size = 2048;
  int64_t num_hidden_layers = 12, num_attention_heads = 8;
  std::string hidden_act = "quick_gelu";
  double layer_norm_eps = 1e-5;
  bool projection = false;
  int64_t projection_dim = 512;
};
// transformers 5 omits `tower`, such as "text_model", in the names of a tower without a projection.
Renames with_tower(const std::string& tower);

// side: "text" or "vision". `of`: transformers' value if a CLIPModel's configuration does not have the key.
template <class Options>
void describe_layers(Describe<Options>& d, const std::string& side, const Config& of) {
  const std::string tower = side + "_model";
  const Renames names = with_tower(tower);
  d.layout(
      "transformers-5", "names without " + tower + ".",
      [names](const std::string& n) { return names.ours(n); },
      [names](const std::string& n) { return names.theirs(n); });
  const auto in_clip = [&](const std::string& key, const std::string& otherwise) {
    return std::vector<std::string>{side + "_config." + key + " ?? " + otherwise};
  };
  d.option("hidden_size", &Options::hidden_size)
      .range(1, 65536)
      .help("channels")
      .config(in_clip("hidden_size", std::to_string(of.hidden_size)));
  d.option("intermediate_size", &Options::intermediate_size)
      .range(1, 1 << 20)
      .help("channels inside the MLP")
      .config(in_clip("intermediate_size", std::to_string(of.intermediate_size)));
  d.option("num_hidden_layers", &Options::num_hidden_layers)
      .range(1, 256)
      .help("transformer layers")
      .config(in_clip("num_hidden_layers", std::to_string(of.num_hidden_layers)));
  d.option("num_attention_heads", &Options::num_attention_heads)
      .range(1, 1024)
      .help("divides hidden_size")
      .config(in_clip("num_attention_heads", std::to_string(of.num_attention_heads)));
  d.option("hidden_act", &Options::hidden_act)
      .choices({"quick_gelu", "gelu"})
      .help("activation of the MLP: x sigmoid(1.702 x), OpenAI's, or the exact GELU, LAION's")
      .config(in_clip("hidden_act", of.hidden_act));
  d.option("layer_norm_eps", &Options::layer_norm_eps)
      .above(0)
      .help("epsilon of LayerNorm")
      .config(in_clip("layer_norm_eps", "1e-05"));
  const std::string tower_class = side == "text" ? "CLIPText" : "CLIPVision";
  d.option("projection", &Options::projection)
      .help("projection into the space that text and images share")
      .config(
          {"architectures[0] == " + tower_class + "ModelWithProjection", "architectures[0] == CLIPModel"});
  d.option("projection_dim", &Options::projection_dim)
      .range(1, 65536)
      .help("channels of the shared space")
      .config(in_clip("projection_dim", std::to_string(of.projection_dim)));
}

class Layer {
 public:
  // block: its index for the context; layer block - 1 of the checkpoint, under `tower`, such as
  // "text_model.".
  Layer(const Ctx& ctx, const Config& c, const std::string& tower, int64_t block)
      : Layer(Declare(ctx, tower + "encoder.layers." + std::to_string(block - 1) + ".", block), c) {}
  // valid: bool [B, L]; bias: [1, 1, L, L]; either may be undefined.
  at::Tensor operator()(const Ctx& ctx, const at::Tensor& x, const at::Tensor& valid,
                        const at::Tensor& bias) const;

 private:
  Layer(const Declare& declare, const Config& c);

  Heads heads_;
  bool quick_;
  LayerNorm norm1_, norm2_;
  Linear q_, k_, v_, out_;
  FeedForward mlp_;
};

}  // namespace kinora::clip
