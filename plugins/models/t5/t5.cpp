// model/t5 and model/umt5: the encoder of T5 (Raffel et al. 2019, arXiv 1910.10683). UMT5 (Chung et al. 2023,
// arXiv 2304.09151) has one difference: every layer has its own relative positions. Names are those of
// transformers' T5EncoderModel and UMT5EncoderModel.
//
// The text is the same on every rank of the model, so its tokens are not a sequence of the context: seq is 0
// throughout. B batch, L tokens, H local heads, D d_model.
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "kinora/layers.hpp"
#include "kinora/model.hpp"
#include "kinora/options.hpp"
#include "kinora/plugin.hpp"

namespace kinora::t5 {
namespace {

using at::Tensor;

// Options of model/t5 and model/umt5: the keys of transformers' configurations.
struct Config {
  std::string size;  // a published model; empty: the other options
  int64_t vocab_size = 32128;
  int64_t d_model = 512, d_kv = 64, d_ff = 2048;
  int64_t num_layers = 6, num_heads = 8;
  int64_t relative_attention_num_buckets = 32, relative_attention_max_distance = 128;
  double layer_norm_epsilon = 1e-6;
  std::string feed_forward_proj = "relu";
  std::string model_type = "t5";  // the value in a configuration

  bool gated() const { return feed_forward_proj.starts_with("gated-"); }
  int64_t inner() const { return num_heads * d_kv; }
};

struct Umt5Config : Config {
  Umt5Config() {
    vocab_size = 256384;
    d_ff = 1024, num_layers = 8, num_heads = 6;
    feed_forward_proj = "gated-gelu";
    model_type = "umt5";
  }
};

struct Preset {
  const char* name;
  int64_t vocab_size, d_model, d_kv, d_ff, num_layers, num_heads;
  const char* feed_forward_proj;
};
// google-t5/t5-*: Raffel et al. 2019 (arXiv 1910.10683), appendix; t5-11b is Cosmos 1's. google/t5-v1_1-* and
// google/mt5-*: Xue et al. 2020 (arXiv 2010.11934). google/umt5-*: Chung et al. 2023 (arXiv 2304.09151);
// umt5-xxl is Wan's.
constexpr Preset presets[] = {
    {"t5-small", 32128, 512, 64, 2048, 6, 8, "relu"},
    {"t5-base", 32128, 768, 64, 3072, 12, 12, "relu"},
    {"t5-large", 32128, 1024, 64, 4096, 24, 16, "relu"},
    {"t5-3b", 32128, 1024, 128, 16384, 24, 32, "relu"},
    {"t5-11b", 32128, 1024, 128, 65536, 24, 128, "relu"},
    {"t5-v1_1-small", 32128, 512, 64, 1024, 8, 6, "gated-gelu"},
    {"t5-v1_1-base", 32128, 768, 64, 2048, 12, 12, "gated-gelu"},
    {"t5-v1_1-large", 32128, 1024, 64, 2816, 24, 16, "gated-gelu"},
    {"t5-v1_1-xl", 32128, 2048, 64, 5120, 24, 32, "gated-gelu"},
    {"t5-v1_1-xxl", 32128, 4096, 64, 10240, 24, 64, "gated-gelu"},
    {"mt5-small", 250112, 512, 64, 1024, 8, 6, "gated-gelu"},
    {"mt5-base", 250112, 768, 64, 2048, 12, 12, "gated-gelu"},
    {"mt5-large", 250112, 1024, 64, 2816, 24, 16, "gated-gelu"},
    {"mt5-xl", 250112, 2048, 64, 5120, 24, 32, "gated-gelu"},
    {"mt5-xxl", 250112, 4096, 64, 10240, 24, 64, "gated-gelu"},
    {"umt5-small", 256384, 512, 64, 1024, 8, 6, "gated-gelu"},
    {"umt5-base", 256384, 768, 64, 2048, 12, 12, "gated-gelu"},
    {"umt5-xl", 256384, 2048, 64, 5120, 24, 32, "gated-gelu"},
    {"umt5-xxl", 256384, 4096, 64, 10240, 24, 64, "gated-gelu"},
};

bool is_umt5(const Preset& p) { return std::string_view(p.name).starts_with("umt5-"); }

template <class Options>
void describe_all(Describe<Options>& d, bool umt5) {
  d.input("input_ids", "[B, L]", "int64", "ids of the tokens");
  d.input("attention_mask", "[B, L]", "int64", "1 for a token, 0 for padding; left out: all are tokens");
  d.output("output", "[B, L, d_model]", "float", "one embedding per token, also for padding");
  std::vector<std::string> names{""};
  for (const auto& p : presets)
    if (is_umt5(p) == umt5) names.emplace_back(p.name);
  d.layout("tied", "names with the embedding only under encoder.embed_tokens", [](const std::string& name) {
    return name == "encoder.embed_tokens.weight" ? std::string("shared.weight") : name;
  });
  d.option("size", &Options::size)
      .choices(names)
      .help(
          "a published model, which sets the vocabulary, all sizes and feed_forward_proj; empty: the other "
          "options");
  d.option("vocab_size", &Options::vocab_size).range(1, 1 << 24).help("rows of the embedding");
  d.option("d_model", &Options::d_model).range(1, 65536).help("channels");
  d.option("d_kv", &Options::d_kv).range(1, 4096).help("channels per head; heads * d_kv need not be d_model");
  d.option("d_ff", &Options::d_ff).range(1, 1 << 20).help("channels inside the MLP");
  d.option("num_layers", &Options::num_layers).range(1, 256).help("transformer layers of the encoder");
  d.option("num_heads", &Options::num_heads).range(1, 1024).help("number of attention heads");
  d.option("relative_attention_num_buckets", &Options::relative_attention_num_buckets)
      .range(4, 65536)
      .help("number of buckets of distances, half of them for each direction");
  d.option("relative_attention_max_distance", &Options::relative_attention_max_distance)
      .range(2, 1 << 20)
      .unit("tokens")
      .help("distance from which on all share the last bucket");
  d.option("layer_norm_epsilon", &Options::layer_norm_epsilon).above(0).help("epsilon of RMSNorm");
  d.option("feed_forward_proj", &Options::feed_forward_proj)
      .choices({"relu", "gated-gelu", "gated-silu"})
      .help("type of the MLP; gelu is the tanh approximation");
  d.option("model_type", &Options::model_type)
      .choices(umt5 ? std::vector<std::string>{"umt5"} : std::vector<std::string>{"t5", "mt5"})
      .help(
          "name of the network in a config.json; T5 and UMT5 have the same parameter names but compute "
          "different results");
}

void describe(Describe<Config>& d) {
  d.name("t5").help("T5 text encoder, v1.0, v1.1 and multilingual (relative positions in the first layer)");
  describe_all(d, false);
}

void describe(Describe<Umt5Config>& d) {
  d.name("umt5").help("UMT5 text encoder of Wan (relative positions in every layer)");
  describe_all(d, true);
}

// The configuration with `size` applied. Throws Error with `id` as the component's name.
Config checked(Config c, const std::string& id) {
  for (const auto& p : presets) {
    if (c.size != p.name) continue;
    c.vocab_size = p.vocab_size;
    c.d_model = p.d_model, c.d_kv = p.d_kv, c.d_ff = p.d_ff;
    c.num_layers = p.num_layers, c.num_heads = p.num_heads;
    c.feed_forward_proj = p.feed_forward_proj;
  }
  const auto refuse = [&](const std::string& what) { throw Error(KINORA_ERROR_INVALID, id + ": " + what); };
  if (c.relative_attention_num_buckets % 4) refuse("relative_attention_num_buckets must be a multiple of 4");
  if (c.relative_attention_max_distance <= c.relative_attention_num_buckets / 4)
    refuse("relative_attention_max_distance must be above a quarter of relative_attention_num_buckets");
  return c;
}

// Heads are the second dimension of this table, and ROW splits the second dimension.
kinora_param declare_places(const Declare& layer, const Config& c) {
  return layer.weight("layer.0.SelfAttention.relative_attention_bias",
                      {c.relative_attention_num_buckets, c.num_heads}, fan_in(c.d_model), Role::row);
}

// Distance of key j from query i in buckets: half of them for each direction; of these, half represent single
// distances and half grow logarithmically, in float32 as published. int64 [L, L]
Tensor buckets(int64_t L, const Config& c, const at::Device& device) {
  const int64_t half = c.relative_attention_num_buckets / 2, exact = half / 2;
  const Tensor at = at::arange(L, at::TensorOptions(at::kLong).device(device));
  const Tensor distance = at.unsqueeze(0) - at.unsqueeze(1), far = distance.abs();
  const double span =
      std::log(static_cast<double>(c.relative_attention_max_distance) / static_cast<double>(exact));
  const Tensor grown = (at::log(far.to(at::kFloat) / exact) / span * (half - exact)).to(at::kLong);
  return (distance > 0).to(at::kLong) * half +
         at::where(far < exact, far, (exact + grown.clamp_min(0)).clamp_max(half - 1));
}

Tensor bias_of(const Tensor& places, const Tensor& buckets) {
  return at::embedding(places, buckets).permute({2, 0, 1}).unsqueeze(0);
}

void check_inputs(const Tensor& ids, const Tensor& mask, const std::string& id) {
  if (ids.dim() != 2 || (mask.defined() && ids.sizes() != mask.sizes()))
    throw Error(KINORA_ERROR_INVALID,
                c10::str(id, ": input_ids and attention_mask must both be [B, L], found ", ids.sizes(),
                         " and ", mask.defined() ? mask.sizes() : at::IntArrayRef()));
}

class Layer {
 public:
  // block: its index for the context; layer block - 1 of the checkpoint. places: it has relative positions.
  Layer(const Ctx& ctx, const Config& c, int64_t block, bool places)
      : Layer(Declare(ctx, "encoder.block." + std::to_string(block - 1) + ".", block), c, places) {}
  // valid: bool [B, L]. where: the bias [1, H, L, L] of positions, or buckets [L, L] if the layer has its
  // own table.
  at::Tensor operator()(const Ctx& ctx, const at::Tensor& x, const at::Tensor& valid,
                        const at::Tensor& where) const;

 private:
  Layer(const Declare& declare, const Config& c, bool places);
  at::Tensor attend(const Ctx& ctx, const at::Tensor& x, const at::Tensor& valid,
                    const at::Tensor& bias) const;
  at::Tensor mlp(const Ctx& ctx, const at::Tensor& x) const;

  Config c_;
  Heads heads_;
  kinora_param attend_norm_, places_ = 0, mlp_norm_;
  Linear q_, k_, v_, o_, wi_0_, wi_1_, wo_;
};

// Common base of both; places_everywhere means UMT5.
class Encoder : public Model<at::Tensor> {
 public:
  std::vector<at::Tensor> forward(const Ctx& ctx, const Named<at::Tensor>& in) override;
  int64_t blocks() const override { return c_.num_layers + 2; }

 protected:
  Encoder(std::string id, const Config& c, const Ctx& ctx, bool places_everywhere);

 private:
  std::string id_;
  Config c_;
  kinora_param words_, places_ = 0, final_norm_;
  std::vector<Layer> layers_;
};

}  // namespace

class T5 final : public Encoder {
 public:
  using Options = Config;
  static void describe(Describe<Options>& d) { t5::describe(d); }
  T5(const Options& o, const Ctx& ctx) : Encoder("model/t5", o, ctx, false) {}
};

class Umt5 final : public Encoder {
 public:
  using Options = Umt5Config;
  static void describe(Describe<Options>& d) { t5::describe(d); }
  Umt5(const Options& o, const Ctx& ctx) : Encoder("model/umt5", o, ctx, true) {}
};

// Standard deviations are from the fan-in: the paper's initialisation, as in Mesh TensorFlow. Scores are not
// scaled: q's includes the scale.
Layer::Layer(const Declare& declare, const Config& c, bool places) : c_(c), heads_(declare, c.d_kv, 1) {
  const auto self = declare.in("layer.0.SelfAttention"), mlp = declare.in("layer.1.DenseReluDense");
  const auto D = c.d_model, inner = c.inner(), F = c.d_ff, d = c.d_kv;
  attend_norm_ = declare.weight("layer.0.layer_norm", {D}, Init::ones());
  q_ = self.linear("q", inner, D, fan_in(D * d), Role::column, d);
  k_ = self.linear("k", inner, D, fan_in(D), Role::column, d);
  v_ = self.linear("v", inner, D, fan_in(D), Role::column, d);
  o_ = self.linear("o", D, inner, fan_in(inner), Role::row, d);
  if (places) places_ = declare_places(declare, c);
  mlp_norm_ = declare.weight("layer.1.layer_norm", {D}, Init::ones());
  wi_0_ = mlp.linear(c.gated() ? "wi_0" : "wi", F, D, fan_in(D), Role::column);
  if (c.gated()) wi_1_ = mlp.linear("wi_1", F, D, fan_in(D), Role::column);
  wo_ = mlp.linear("wo", D, F, fan_in(F), Role::row);
}

Tensor Layer::attend(const Ctx& ctx, const Tensor& x, const Tensor& valid, const Tensor& bias) const {
  const auto heads = [&](const Linear& by) { return heads_.split(by(ctx, x)); };
  Attention<Tensor> how;
  how.kv_valid = valid;
  how.bias = bias;
  return o_(ctx, heads_.attend(ctx, 0, heads(q_), heads(k_), heads(v_), how));
}

Tensor Layer::mlp(const Ctx& ctx, const Tensor& x) const {
  const Tensor up = wi_0_(ctx, x);
  if (!c_.gated()) return wo_(ctx, at::relu(up));
  const Tensor gate = c_.feed_forward_proj == "gated-silu" ? at::silu(up) : at::gelu(up, "tanh");
  return wo_(ctx, gate * wi_1_(ctx, x));
}

Tensor Layer::operator()(const Ctx& ctx, const Tensor& in, const Tensor& valid, const Tensor& where) const {
  const Tensor bias = places_ ? bias_of(ctx.value(places_), where) : where;
  const Tensor x = in + attend(ctx, rms_norm(ctx, in, attend_norm_, c_.layer_norm_epsilon), valid, bias);
  return x + mlp(ctx, rms_norm(ctx, x, mlp_norm_, c_.layer_norm_epsilon));
}

Encoder::Encoder(std::string id, const Config& c, const Ctx& ctx, bool places_everywhere)
    : id_(std::move(id)), c_(checked(c, id_)) {
  words_ = Declare(ctx, "", 0).weight("shared", {c_.vocab_size, c_.d_model}, Init::normal(1), Role::vocab);
  if (!places_everywhere) places_ = declare_places(Declare(ctx, "encoder.block.0.", -1), c_);
  for (int64_t i = 1; i <= c_.num_layers; ++i) layers_.emplace_back(ctx, c_, i, places_everywhere);
  final_norm_ =
      Declare(ctx, "encoder.", c_.num_layers + 1).weight("final_layer_norm", {c_.d_model}, Init::ones());
}

std::vector<Tensor> Encoder::forward(const Ctx& ctx, const Named<Tensor>& in) {
  const Tensor &ids = in["input_ids"], mask = in.get("attention_mask");
  check_inputs(ids, mask, id_);
  const Tensor valid = mask.defined() ? mask != 0 : at::ones_like(ids, at::kBool),
               seen = valid | ~valid.any(1, true);  // an empty text attends to its padding, not to NaN
  Tensor where = buckets(ids.size(1), c_, ids.device());
  if (places_) where = bias_of(ctx.value(places_), where);

  using Tensors = std::vector<Tensor>;
  Tensor x = ctx.block(0, {ids}, {}, 1,
                       [this, ctx](const Tensors& t) { return Tensors{ctx.lookup(t[0], words_, 0)}; })[0];
  for (size_t i = 0; i < layers_.size(); ++i)
    x = ctx.block(static_cast<int64_t>(i) + 1, {x}, {seen, where}, 1,
                  [this, ctx, i](const Tensors& t) { return Tensors{layers_[i](ctx, t[0], t[1], t[2])}; })[0];
  return ctx.block(c_.num_layers + 1, {x}, {}, 1, [this, ctx](const Tensors& t) {
    return Tensors{rms_norm(ctx, t[0], final_norm_, c_.layer_norm_epsilon)};
  });
}

KINORA_COMPONENT(T5)
KINORA_COMPONENT(Umt5)
KINORA_PLUGIN(T5, Umt5)

}  // namespace kinora::t5
