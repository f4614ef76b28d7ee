// model/clip-text: names are those of published CLIP checkpoints (transformers' CLIPTextModelWithProjection).
#include <limits>

#include "kinora/plugin.hpp"
#include "plugins/models/clip/layer.hpp"

namespace kinora::clip {

struct TextConfig : Config {
  int64_t vocab_size = 49408, max_position_embeddings = 77;
  int64_t eos_token_id = 49407;
};

using at::Tensor;

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

void Text::describe(Describe<Options>& d) {
  d.name("clip-text").help("CLIP's text encoder, by default in the size of ViT-B/32");
  d.input("input_ids", "[B, L]", "int64", "ids of the tokens");
  d.input("attention_mask", "[B, L]", "int64", "1 for a token, 0 for padding; left out: all are tokens");
  d.output("output", "[B, L, hidden_size]", "float", "one embedding per token, of the text up to it");
  d.output("pooled", "[B, hidden_size]", "float", "embedding of the end of the text");
  d.output("embed", "[B, projection_dim]", "float", "pooled in the shared space, with projection = true");
  describe_layers(d, "text", Config());
  d.option("vocab_size", &Options::vocab_size)
      .range(1, 1 << 24)
      .help("rows of the embedding")
      .config({"text_config.vocab_size"});
  d.option("max_position_embeddings", &Options::max_position_embeddings)
      .range(1, 1 << 20)
      .unit("tokens")
      .help("longest text")
      .config({"text_config.max_position_embeddings"});
  d.option("eos_token_id", &Options::eos_token_id)
      .range(0, 1 << 24)
      .help("token whose first occurrence ends a text; 2, in older configurations: the highest id does")
      .config({"text_config.eos_token_id"});
}

Text::Text(const Options& o, const Ctx& ctx)
    : c_(o),
      words_(Declare(ctx, "text_model.embeddings.", 0)
                 .weight("token_embedding", {o.vocab_size, o.hidden_size}, Init::normal(0.02), Role::vocab)),
      positions_(Declare(ctx, "text_model.embeddings.", 0)
                     .weight("position_embedding", {o.max_position_embeddings, o.hidden_size},
                             Init::normal(0.01), Role::table)),
      final_norm_(Declare(ctx, "text_model.", o.num_hidden_layers + 1)
                      .layer_norm("final_layer_norm", o.hidden_size, o.layer_norm_eps)) {
  for (int64_t i = 1; i <= o.num_hidden_layers; ++i) layers_.emplace_back(ctx, o, "text_model.", i);
  if (o.projection)
    projection_ = Declare(ctx, "", blocks() - 1)
                      .linear("text_projection", o.projection_dim, o.hidden_size, fan_in(o.hidden_size));
}

void Text::check_inputs(const Tensor& ids, const Tensor& mask) const {
  const auto refuse = [](const std::string& what) {
    throw Error(KINORA_ERROR_INVALID, "model/clip-text: " + what);
  };
  if (ids.dim() != 2 || (mask.defined() && ids.sizes() != mask.sizes()))
    refuse(c10::str("input_ids and attention_mask must both be [B, L], found ", ids.sizes(), " and ",
                    mask.defined() ? mask.sizes() : at::IntArrayRef()));
  if (ids.size(1) < 1 || ids.size(1) > c_.max_position_embeddings)
    refuse(c10::str(ids.size(1), " tokens are not 1 to max_position_embeddings = ",
                    c_.max_position_embeddings, "; cut the text"));
}

// Index of the token that represents the text, [B].
Tensor Text::end_of_text(const Tensor& ids) const {
  constexpr int64_t kHighest = 2;  // value in configurations from before transformers' pull request 24773
  return c_.eos_token_id == kHighest ? ids.argmax(1) : (ids == c_.eos_token_id).to(at::kInt).argmax(1);
}

std::vector<Tensor> Text::forward(const Ctx& ctx, const Named<Tensor>& in) {
  const Tensor &ids = in["input_ids"], mask = in.get("attention_mask");
  check_inputs(ids, mask);
  const int64_t L = ids.size(1);
  const auto on = at::TensorOptions().device(ids.device());
  // The first token is always visible, so that every token has one to attend to.
  const Tensor valid = mask.defined() ? at::logical_or(mask != 0, at::arange(L, on.dtype(at::kLong)) == 0)
                                      : at::ones_like(ids, at::kBool),
               causal = at::full({L, L}, -std::numeric_limits<double>::infinity(), on.dtype(at::kFloat))
                            .triu(1)
                            .view({1, 1, L, L});

  using Tensors = std::vector<Tensor>;
  Tensor x = ctx.block(0, {ids}, {}, 1, [this, ctx](const Tensors& t) {
    return Tensors{ctx.lookup(t[0], words_, 0) + ctx.value(positions_).narrow(0, 0, t[0].size(1))};
  })[0];
  for (size_t i = 0; i < layers_.size(); ++i)
    x = ctx.block(static_cast<int64_t>(i) + 1, {x}, {valid, causal}, 1,
                  [this, ctx, i](const Tensors& t) { return Tensors{layers_[i](ctx, t[0], t[1], t[2])}; })[0];
  return ctx.block(
      blocks() - 1, {x}, {end_of_text(ids)}, c_.projection ? 3 : 2, [this, ctx](const Tensors& t) {
        const Tensor out = final_norm_(ctx, t[0]);
        const Tensor pooled = out.gather(1, t[1].view({-1, 1, 1}).expand({-1, 1, out.size(2)})).squeeze(1);
        return c_.projection ? Tensors{out, pooled, projection_(ctx, pooled)} : Tensors{out, pooled};
      });
}

KINORA_COMPONENT(Text)

}  // namespace kinora::clip
