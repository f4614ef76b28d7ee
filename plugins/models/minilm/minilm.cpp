#include "plugins/models/minilm/minilm.hpp"

#include <cmath>

namespace kinora::minilm {
namespace {

using at::Tensor;

kinora_param declare(const Ctx& ctx, int64_t block, std::string name, std::vector<int64_t> shape, Init init,
                     Role role = Role::whole, int64_t quantum = 1) {
  Parameter p;
  p.name = std::move(name);
  p.shape = std::move(shape);
  p.init = init;
  p.role = role;
  p.block = block;
  p.quantum = quantum;
  return ctx.parameter(p);
}

// BERT's initialisation: normal, 0.02. The bias of a ROW linear is added once, so it is not split.
Linear linear(const Ctx& ctx, int64_t block, const std::string& name, int64_t out, int64_t in, Role role,
              int64_t quantum = 1) {
  const bool split = role == Role::column;
  return {declare(ctx, block, name + ".weight", {out, in}, Init::normal(0.02), role, quantum),
          declare(ctx, block, name + ".bias", {out}, Init::zeros(), split ? role : Role::whole,
                  split ? quantum : 1)};
}

Norm norm(const Ctx& ctx, int64_t block, const std::string& name, const Config& c) {
  return {declare(ctx, block, name + ".LayerNorm.weight", {c.hidden}, Init::ones()),
          declare(ctx, block, name + ".LayerNorm.bias", {c.hidden}, Init::zeros()), c.layer_norm_eps};
}

Tensor apply(const Ctx& ctx, const Linear& l, const Tensor& x) { return ctx.linear(x, l.weight, l.bias, 0); }

Tensor apply(const Ctx& ctx, const Norm& n, const Tensor& x) {
  const auto type = x.scalar_type();
  return at::layer_norm(x, {x.size(-1)}, ctx.value(n.weight).to(type), ctx.value(n.bias).to(type), n.epsilon);
}

// Mean of the valid tokens, scaled to length 1; in at least float32. [B, D]
Tensor pooled(const Tensor& x, const Tensor& valid) {
  const auto type = x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const Tensor weight = valid.to(type).unsqueeze(-1);
  const Tensor mean = (x.to(type) * weight).sum(1) / weight.sum(1).clamp_min(1e-9);
  return (mean / mean.norm(2, {1}, true).clamp_min(1e-12)).to(x.scalar_type());
}

void check_ids(const Tensor& ids, const Tensor& mask, const Config& c) {
  const auto refuse = [](const std::string& what) { throw Error(KINORA_INVALID, "model/minilm: " + what); };
  if (ids.dim() != 2 || ids.sizes() != mask.sizes())
    refuse(c10::str("input_ids and attention_mask must both be [B, L], found ", ids.sizes(), " and ",
                    mask.sizes()));
  if (ids.size(1) > c.max_positions)
    refuse(
        c10::str(ids.size(1), " tokens are more than max_positions = ", c.max_positions, "; cut the text"));
}

}  // namespace

Layer::Layer(const Ctx& ctx, const Config& c, int64_t block)
    : name_("encoder.layer." + std::to_string(block - 1)),
      block_(block),
      head_size_(c.hidden / c.heads),
      relu_(c.hidden_act == "relu") {
  const auto D = c.hidden, M = c.intermediate;
  const std::string self = name_ + ".attention.self.", attention = name_ + ".attention.output",
                    output = name_ + ".output";
  query_ = linear(ctx, block, self + "query", D, D, Role::column, head_size_);
  key_ = linear(ctx, block, self + "key", D, D, Role::column, head_size_);
  value_ = linear(ctx, block, self + "value", D, D, Role::column, head_size_);
  attended_ = linear(ctx, block, attention + ".dense", D, D, Role::row, head_size_);
  attended_norm_ = norm(ctx, block, attention, c);
  up_ = linear(ctx, block, name_ + ".intermediate.dense", M, D, Role::column);
  down_ = linear(ctx, block, output + ".dense", D, M, Role::row);
  norm_ = norm(ctx, block, output, c);
}

Tensor Layer::operator()(const Ctx& ctx, const Tensor& in, const Tensor& valid) const {
  const auto heads = [&](const Linear& l) { return apply(ctx, l, in).unflatten(2, {-1, head_size_}); };
  Attention<Tensor> how;
  how.name = name_.c_str();
  how.block = block_;
  how.scale = 1 / std::sqrt(static_cast<double>(head_size_));
  how.kv_valid = valid;
  const Tensor seen = ctx.attention(heads(query_), heads(key_), heads(value_), how).flatten(2);
  const Tensor x = apply(ctx, attended_norm_, in + apply(ctx, attended_, seen));
  const Tensor up = apply(ctx, up_, x);
  return apply(ctx, norm_, x + apply(ctx, down_, relu_ ? at::relu(up) : at::gelu(up)));
}

// In a model with a head, all names have the prefix "bert."; conversions from TensorFlow call a norm's parameters gamma
// and beta.
std::string without_head(std::string name) {
  if (name.starts_with("bert.")) name.erase(0, 5);
  if (name.ends_with(".LayerNorm.gamma")) return name.substr(0, name.size() - 5) + "weight";
  if (name.ends_with(".LayerNorm.beta")) return name.substr(0, name.size() - 4) + "bias";
  return name;
}

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
      .help("name of the network in a config.json; others with the same parameter names compute different results");
  d.option("position_embedding_type", &Options::position_embedding_type)
      .choices({"absolute"})
      .help("value in a config.json");
}

MiniLm::MiniLm(const Options& o, const Ctx& ctx) : options_(o) {
  if (o.hidden % o.heads) throw Error(KINORA_INVALID, "model/minilm: heads does not divide hidden");
  const Init init = Init::normal(0.02);
  words_ = declare(ctx, 0, "embeddings.word_embeddings.weight", {o.vocab, o.hidden}, init, Role::table);
  positions_ = declare(ctx, 0, "embeddings.position_embeddings.weight", {o.max_positions, o.hidden}, init,
                       Role::table);
  types_ = declare(ctx, 0, "embeddings.token_type_embeddings.weight", {o.types, o.hidden}, init, Role::table);
  embedded_norm_ = norm(ctx, 0, "embeddings", o);
  for (int64_t i = 1; i <= o.layers; ++i) layers_.emplace_back(ctx, o, i);
}

// A single text, so the token type is 0.
Tensor MiniLm::embed(const Ctx& ctx, const Tensor& ids) const {
  const Tensor place = ctx.value(positions_).narrow(0, 0, ids.size(1)), type = ctx.value(types_).select(0, 0);
  return apply(ctx, embedded_norm_, at::embedding(ctx.value(words_), ids) + place + type);
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

}  // namespace kinora::minilm
