// model/clip-vision: names are those of published CLIP checkpoints (transformers'
// CLIPVisionModelWithProjection).
#pragma once
#include "plugins/models/clip/layer.hpp"

namespace kinora::clip {

// By default ViT-H/14 of LAION, the image encoder of Wan 2.1's image-to-video models.
struct VisionConfig : Config {
  int64_t image_size = 224, patch_size = 14, num_channels = 3;
  int64_t skip_layers = 1;
  VisionConfig() {
    hidden_size = 1280, intermediate_size = 5120;
    num_hidden_layers = 32, num_attention_heads = 16;
    hidden_act = "gelu";
    projection_dim = 1024;
  }
};

class Vision final : public Model<at::Tensor> {
 public:
  using Options = VisionConfig;
  static void describe(Describe<Options>& d);
  Vision(const Options& o, const Ctx& ctx);
  std::vector<at::Tensor> forward(const Ctx& ctx, const Named<at::Tensor>& in) override;
  int64_t blocks() const override { return c_.num_hidden_layers + 2; }

 private:
  at::Tensor embed(const Ctx& ctx, const at::Tensor& image) const;
  // The results of block `index`: x, and the output tokens once they are known.
  std::vector<at::Tensor> with_output(int64_t index, const at::Tensor& x,
                                      const std::vector<at::Tensor>& in) const;
  int64_t output_block() const { return c_.num_hidden_layers - c_.skip_layers; }

  Options c_;
  int64_t side_;  // number of patches
  kinora_param class_, patches_, positions_;
  LayerNorm pre_norm_;
  Linear projection_;
  std::vector<Layer> layers_;
  LayerNorm post_norm_;
};

}  // namespace kinora::clip
