// model/clip-text: names are those of published CLIP checkpoints (transformers' CLIPTextModelWithProjection).
#pragma once
#include "plugins/models/clip/layer.hpp"

namespace kinora::clip {

struct TextConfig : Config {
  int64_t vocab_size = 49408, max_position_embeddings = 77;
  int64_t eos_token_id = 49407;
};

class Text final : public Model<at::Tensor> {
 public:
  using Options = TextConfig;
  static void describe(Describe<Options>& d);
  Text(const Options& o, const Ctx& ctx);
  std::vector<at::Tensor> forward(const Ctx& ctx, const Named<at::Tensor>& in) override;
  int64_t blocks() const override { return c_.num_hidden_layers + 2; }

 private:
  at::Tensor end_of_text(const at::Tensor& ids) const;
  void check_inputs(const at::Tensor& ids, const at::Tensor& mask) const;

  Options c_;
  kinora_param words_, positions_;
  Linear projection_;
  std::vector<Layer> layers_;
  LayerNorm final_norm_;
};

}  // namespace kinora::clip
