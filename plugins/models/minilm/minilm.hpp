// model/minilm: the BERT encoder (Devlin et al. 2018, arXiv 1810.04805), by default in the size of
// all-MiniLM-L6-v2, with the pooling of sentence-transformers. Names are those of transformers' BertModel.
//
// The text is the same on every rank of the model, so its tokens are not a sequence of the context: seq is 0
// throughout. B batch, L tokens, D hidden channels.
#pragma once
#include <string>
#include <vector>

#include "kinora/layers.hpp"
#include "kinora/model.hpp"

namespace kinora::minilm {

struct Config {
  int64_t layers = 6, hidden = 384, heads = 12, intermediate = 1536;
  int64_t vocab = 30522, max_positions = 512, types = 2;
  double layer_norm_eps = 1e-12;
  std::string hidden_act = "gelu";
  // Other values of a configuration: networks with BERT's names that compute different results.
  std::string model_type = "bert", position_embedding_type = "absolute";
};

class Layer {
 public:
  // block: its index for the context; layer block - 1 of the checkpoint.
  Layer(const Ctx& ctx, const Config& c, int64_t block)
      : Layer(Declare(ctx, "encoder.layer." + std::to_string(block - 1) + ".", block), c) {}
  // valid: bool [B, L].
  at::Tensor operator()(const Ctx& ctx, const at::Tensor& x, const at::Tensor& valid) const;

 private:
  Layer(const Declare& declare, const Config& c);

  Heads heads_;
  bool relu_;
  Linear query_, key_, value_, attended_;
  FeedForward mlp_;
  LayerNorm attended_norm_, norm_;
};

class MiniLm final : public Model<at::Tensor> {
 public:
  using Options = Config;
  static void describe(Describe<Options>& d);
  MiniLm(const Options& o, const Ctx& ctx);
  std::vector<at::Tensor> forward(const Ctx& ctx, const Named<at::Tensor>& in) override;
  int64_t blocks() const override { return options_.layers + 2; }

 private:
  at::Tensor embed(const Ctx& ctx, const at::Tensor& ids) const;

  Options options_;
  kinora_param words_, positions_, types_;
  LayerNorm embedded_norm_;
  std::vector<Layer> layers_;
};

}  // namespace kinora::minilm
