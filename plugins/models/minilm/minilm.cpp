// model/minilm: the BERT encoder (Devlin et al. 2018, arXiv 1810.04805), by default in the size of
// all-MiniLM-L6-v2, with the pooling of sentence-transformers. Names are those of transformers' BertModel.
//
// The text is the same on every rank of the model, so its tokens are not a sequence of the context: seq is 0
// throughout. B batch, L tokens, D hidden channels.
#include <string>
#include <vector>

#include "kinora/layers.hpp"
#include "kinora/model.hpp"
#include "kinora/plugin.hpp"

namespace kinora::minilm {

namespace {

using at::Tensor;

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

// BERT's initialisation: normal, 0.02.
Linear linear(const Declare& declare, const std::string& name, int64_t out, int64_t in, Role role,
              int64_t quantum = 1) {
  return declare.biased(name, out, in, Init::normal(0.02), role, quantum);
}

// Mean of the valid tokens, scaled to length 1; in at least float32. [B, D]
Tensor pooled(const Tensor& x, const Tensor& valid) {
  const auto type = wide_type(x);
  const Tensor weight = valid.to(type).unsqueeze(-1);
  const Tensor mean = (x.to(type) * weight).sum(1) / weight.sum(1).clamp_min(1e-9);
  return (mean / mean.norm(2, {1}, true).clamp_min(1e-12)).to(x.scalar_type());
}

void check_ids(const Tensor& ids, const Tensor& mask, const Config& c) {
  const auto refuse = [](const std::string& what) {
    throw Error(KINORA_ERROR_INVALID, "model/minilm: " + what);
  };
  if (ids.dim() != 2 || ids.sizes() != mask.sizes())
    refuse(c10::str("input_ids and attention_mask must both be [B, L], found ", ids.sizes(), " and ",
                    mask.sizes()));
  if (ids.size(1) > c.max_positions)
    refuse(
        c10::str(ids.size(1), " tokens are more than max_positions = ", c.max_positions, "; cut the text"));
}

Layer::Layer(const Declare& declare, const Config& c)
    : heads_(declare, c.hidden / c.heads), relu_(c.hidden_act == "relu") {
  const auto D = c.hidden, M = c.intermediate, d = heads_.size();
  query_ = linear(declare, "attention.self.query", D, D, Role::column, d);
  key_ = linear(declare, "attention.self.key", D, D, Role::column, d);
  value_ = linear(declare, "attention.self.value", D, D, Role::column, d);
  attended_ = linear(declare, "attention.output.dense", D, D, Role::row, d);
  attended_norm_ = declare.layer_norm("attention.output.LayerNorm", D, c.layer_norm_eps);
  mlp_ = {linear(declare, "intermediate.dense", M, D, Role::column),
          linear(declare, "output.dense", D, M, Role::row)};
  norm_ = declare.layer_norm("output.LayerNorm", D, c.layer_norm_eps);
}

Tensor Layer::operator()(const Ctx& ctx, const Tensor& in, const Tensor& valid) const {
  const auto heads = [&](const Linear& by) { return heads_.split(by(ctx, in)); };
  Attention<Tensor> how;
  how.kv_valid = valid;
  const Tensor seen = heads_.attend(ctx, 0, heads(query_), heads(key_), heads(value_), how);
  const Tensor x = attended_norm_(ctx, in + attended_(ctx, seen));
  const auto activation = [this](const Tensor& up) { return relu_ ? at::relu(up) : at::gelu(up); };
  return norm_(ctx, x + mlp_(ctx, x, 0, activation));
}

// In a model with a head, all names have the prefix "bert."; conversions from TensorFlow call a norm's
// parameters gamma and beta.
std::string without_head(std::string name) {
  if (name.starts_with("bert.")) name.erase(0, 5);
  if (name.ends_with(".LayerNorm.gamma")) return name.substr(0, name.size() - 5) + "weight";
  if (name.ends_with(".LayerNorm.beta")) return name.substr(0, name.size() - 4) + "bias";
  return name;
}

}  // namespace

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

void MiniLm::describe(Describe<Options>& d) {
  d.name("minilm").help("BERT text encoder in the size of all-MiniLM-L6-v2");
  d.input("input_ids", "[B, L]", "int64", "ids of the tokens");
  d.input("attention_mask", "[B, L]", "int64", "1 for a token, 0 for padding");
  d.output("output", "[B, L, hidden]", "float", "one embedding per token");
  d.output("pooled", "[B, hidden]", "float", "mean of a text's tokens, scaled to length 1");
  d.layout("bert", "names in models with a head, and in conversions from TensorFlow", without_head);
  d.option("layers", &Options::layers).range(1, 256).help("transformer layers").config({"num_hidden_layers"});
  d.option("hidden", &Options::hidden).range(1, 65536).help("channels").config({"hidden_size"});
  d.option("heads", &Options::heads).range(1, 1024).help("divides hidden").config({"num_attention_heads"});
  d.option("intermediate", &Options::intermediate)
      .range(1, 1 << 20)
      .help("channels inside the MLP")
      .config({"intermediate_size"});
  d.option("vocab", &Options::vocab).range(1, 1 << 24).help("size of the vocabulary").config({"vocab_size"});
  d.option("max_positions", &Options::max_positions)
      .range(1, 1 << 20)
      .unit("tokens")
      .help("longest text")
      .config({"max_position_embeddings"});
  d.option("types", &Options::types)
      .range(1, 1024)
      .help("rows of the embedding of segments, of which the first is used")
      .config({"type_vocab_size"});
  d.option("layer_norm_eps", &Options::layer_norm_eps).above(0).help("epsilon of LayerNorm");
  d.option("hidden_act", &Options::hidden_act).choices({"gelu", "relu"}).help("activation of the MLP");
  d.option("model_type", &Options::model_type)
      .choices({"bert"})
      .help(
          "name of the network in a config.json; others with the same parameter names compute different "
          "results");
  d.option("position_embedding_type", &Options::position_embedding_type)
      .choices({"absolute"})
      .help("value in a config.json");
}

MiniLm::MiniLm(const Options& o, const Ctx& ctx) : options_(o) {
  if (o.hidden % o.heads) throw Error(KINORA_ERROR_INVALID, "model/minilm: heads does not divide hidden");
  const Init init = Init::normal(0.02);
  const Declare embeddings(ctx, "embeddings.", 0);
  words_ = embeddings.weight("word_embeddings", {o.vocab, o.hidden}, init, Role::vocab);
  positions_ = embeddings.weight("position_embeddings", {o.max_positions, o.hidden}, init, Role::table);
  types_ = embeddings.weight("token_type_embeddings", {o.types, o.hidden}, init, Role::table);
  embedded_norm_ = embeddings.layer_norm("LayerNorm", o.hidden, o.layer_norm_eps);
  for (int64_t i = 1; i <= o.layers; ++i) layers_.emplace_back(ctx, o, i);
}

// A single text, so the token type is 0.
Tensor MiniLm::embed(const Ctx& ctx, const Tensor& ids) const {
  const Tensor place = ctx.value(positions_).narrow(0, 0, ids.size(1)), type = ctx.value(types_).select(0, 0);
  return embedded_norm_(ctx, ctx.lookup(ids, words_, 0) + place + type);
}

std::vector<Tensor> MiniLm::forward(const Ctx& ctx, const Named<Tensor>& in) {
  const Tensor &ids = in["input_ids"], &mask = in["attention_mask"];
  check_ids(ids, mask, options_);
  const Tensor valid = mask != 0,
               seen = valid | ~valid.any(1, true);  // an empty text attends to its padding, not to NaN

  using Tensors = std::vector<Tensor>;
  Tensor x =
      ctx.block(0, {ids}, {}, 1, [this, ctx](const Tensors& t) { return Tensors{embed(ctx, t[0])}; })[0];
  for (size_t i = 0; i < layers_.size(); ++i)
    x = ctx.block(static_cast<int64_t>(i) + 1, {x}, {seen}, 1,
                  [this, ctx, i](const Tensors& t) { return Tensors{layers_[i](ctx, t[0], t[1])}; })[0];
  return ctx.block(options_.layers + 1, {x}, {valid}, 2, [](const Tensors& t) {
    return Tensors{t[0], pooled(t[0], t[1])};
  });
}

KINORA_COMPONENT(MiniLm)
KINORA_PLUGIN(MiniLm)

}  // namespace kinora::minilm
