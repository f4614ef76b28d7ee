// model/ar: next-token transformer over discrete video codes (Cosmos, arXiv 2501.03575, section 5.2). Layout
// and names are those of Cosmos-Predict1's autoregressive networks, with a learnt vector in front of the
// video instead of a special code.
//
// B batch, N codes in the order frames, rows, columns, V vocabulary, D width.
#include <vector>

#include "kinora/block_inputs.hpp"
#include "kinora/model.hpp"
#include "kinora/plugin.hpp"
#include "plugins/models/ar/layer.hpp"

namespace kinora::ar {

using at::Tensor;
using Tensors = std::vector<Tensor>;

namespace {

[[noreturn]] void refuse(const std::string& what) { throw Error(KINORA_ERROR_INVALID, "model/ar: " + what); }

}  // namespace

class Ar final : public Model<at::Tensor> {
 public:
  using Options = Config;
  static constexpr uint32_t sees = KINORA_SEES_CAUSAL;
  static void describe(Describe<Options>& d) { ar::describe(d); }
  Ar(const Options& o, const Ctx& ctx);
  std::vector<at::Tensor> forward(const Ctx& ctx, const Named<at::Tensor>& in) override;
  int64_t blocks() const override { return options_.n_layers + 2; }

 private:
  // The code before each position, -1 at the beginning.
  struct Input {
    at::Tensor codes;            // int64 [B, N]
    int64_t frames, rows, cols;  // of these codes, for the context
    Grid grid;                   // of the video, for RoPE
    int64_t position = 0;
  };
  Input input(const Named<at::Tensor>& in) const;
  // tied: the embedding's weights if they are the head's too. codes int64 [B, S, 1] -> [B, S, D]
  at::Tensor embed(const Ctx& ctx, const at::Tensor& codes, kinora_seq seq, const at::Tensor& tied) const;
  void check_place(const at::Tensor& index, int64_t position) const;
  // text and text_mask, if present.
  std::vector<at::Tensor> text(const Named<at::Tensor>& in, int64_t B) const;

  Options options_;
  kinora_param table_, begin_, norm_;
  Linear out_;
  std::vector<Layer> layers_;
};

// Tied weights are read in the first block and the last, so they belong to neither and are passed through
// in[].
Ar::Ar(const Options& given, const Ctx& ctx) : options_(checked(given)) {
  const auto& c = options_;
  table_ = Declare(ctx, "", c.tied ? -1 : 0)
               .weight("tok_embeddings", {c.vocab_size, c.dim}, Init::normal(c.tied ? 0.02 : 1),
                       c.tied ? Role::whole : Role::vocab);  // if tied, it is also the head's matrix
  begin_ =
      Declare(ctx, "", 0).weight("bov_embedding", {1, c.dim}, Init::normal(c.tied ? 0.02 : 1), Role::table);
  for (int64_t i = 1; i <= c.n_layers; ++i) layers_.emplace_back(ctx, c, i);
  const Declare last(ctx, "", c.n_layers + 1);
  norm_ = last.weight("norm", {c.dim}, Init::ones());
  if (!c.tied) out_ = last.linear("output", c.vocab_size, c.dim, fan_in(c.dim));
}

Ar::Input Ar::input(const Named<Tensor>& in) const {
  const auto& c = options_;
  if (in.has("sizes"))
    refuse(
        "packed rows (`sizes`) are not supported: a code's place is counted from the beginning of its row; "
        "give videos of one size as codes [B, t, h, w]");
  Tensor codes = in["codes"];
  const bool video = codes.dim() == 4;
  if (!at::isIntegralType(codes.scalar_type(), false) || (!video && codes.dim() != 2) || codes.numel() == 0)
    refuse(c10::str("codes must be integers [B, t, h, w] or [B, N], ", codes.scalar_type(), " ",
                    codes.sizes(), " are given"));
  codes = codes.to(at::kLong);
  if (codes.is_cpu() && (codes.min().item<int64_t>() < 0 || codes.max().item<int64_t>() >= c.vocab_size))
    refuse(c10::str("codes from ", codes.min().item<int64_t>(), " to ", codes.max().item<int64_t>(),
                    " are given, vocab_size is ", c.vocab_size));
  Input out{codes.flatten(1), codes.size(1), video ? codes.size(2) : 1, video ? codes.size(3) : 1, {}};
  if (in.has("position")) out.position = in["position"].item<int64_t>();
  if (out.position < 0 || (out.position > 0 && video))
    refuse("position must be at least 0, and is for codes [B, N] with `grid`");
  if (c.rope_dim == "3D" && video) out.grid = {out.rows, out.cols};
  if (c.rope_dim == "3D" && !video) {
    if (!in.has("grid") || in["grid"].numel() != 3)
      refuse("codes [B, N] need `grid`, the video's t, h, w; or give them as [B, t, h, w]");
    const Tensor grid = in["grid"].to(at::kCPU, at::kLong);
    out.grid = {grid[1].item<int64_t>(), grid[2].item<int64_t>()};
    const int64_t all = grid[0].item<int64_t>() * out.grid.rows * out.grid.cols;
    if (out.grid.rows < 1 || out.grid.cols < 1 || out.position + out.codes.size(1) > all)
      refuse(c10::str("codes ", out.position, " to ", out.position + out.codes.size(1) - 1,
                      " are not in a video of ", all, " codes; see `grid`"));
  }
  if (out.position > 0) return out;
  const int64_t N = out.codes.size(1);
  out.codes = at::cat({at::full({codes.size(0), 1}, -1, codes.options()), out.codes.narrow(1, 0, N - 1)}, 1);
  return out;
}

Tensor Ar::embed(const Ctx& ctx, const Tensor& codes, kinora_seq seq, const Tensor& tied) const {
  const Tensor code = codes.squeeze(2), row = code.clamp_min(0),
               x = tied.defined() ? at::embedding(tied, row) : ctx.lookup(row, table_, seq);
  return at::where((code < 0).unsqueeze(2), ctx.value(begin_).to(x.scalar_type()), x);
}

// If the chain numbered the codes from 0, they would be visible to the wrong ones without an error.
void Ar::check_place(const Tensor& index, int64_t position) const {
  if (position == 0 || !index.is_cpu()) return;
  const Tensor real = index.masked_select(index >= 0);
  if (real.numel() > 0 && real.min().item<int64_t>() < position)
    refuse(c10::str("position is ", position, ", the chain's tokens begin at ", real.min().item<int64_t>(),
                    "; set its frames.start to the position"));
}

Tensors Ar::text(const Named<Tensor>& in, int64_t B) const {
  const auto& c = options_;
  if (!in.has("text") || !c.insert_cross_attn) return {};
  const Text text = read_text(in, in["text"], B, c.context_dim, "model/ar");
  return text.mask.defined() ? Tensors{text.tokens, text.mask} : Tensors{text.tokens};
}

std::vector<Tensor> Ar::forward(const Ctx& ctx, const Named<Tensor>& in) {
  const auto& c = options_;
  const Input given = input(in);
  kinora_seq seq = 0;
  const Tensor codes = ctx.sequence(given.codes.unsqueeze(2), given.frames, given.rows, given.cols, seq);
  const Tensor index = ctx.table(seq, Place::inner).select(2, KINORA_TOKEN_INDEX);
  check_place(index, given.position);
  const Tensors tied = c.tied ? Tensors{ctx.value(table_)} : Tensors();

  Tensor x = ctx.block(0, {codes}, tied, 1, [this, ctx, seq](const Tensors& t) {
    return Tensors{embed(ctx, t[0], seq, t.size() > 1 ? t[1] : Tensor())};
  })[0];
  // A stage of a pipeline may not have x here, so these have their own dtypes; layers use x's.
  const Turns turns = rope_turns(index, c.head_dim, c.rope_theta, given.grid);
  Tensors shared{turns.cos, turns.sin};
  for (const auto& t : text(in, given.codes.size(0))) shared.push_back(t);
  for (size_t i = 0; i < layers_.size(); ++i)
    x = ctx.block(static_cast<int64_t>(i) + 1, {x}, shared, 1,
                  [this, ctx, seq, i, grid = given.grid](const Tensors& t) {
                    const auto at = [&](size_t n) { return n < t.size() ? t[n] : Tensor(); };
                    return Tensors{layers_[i](ctx, seq, t[0], {t[1], t[2]}, grid, at(3), at(4))};
                  })[0];
  x = ctx.block(c.n_layers + 1, {x}, tied, 1, [this, ctx, seq](const Tensors& t) {
    const Tensor y = llama_norm(ctx, t[0], norm_, options_.norm_eps);
    return Tensors{t.size() > 1 ? at::linear(y, t[1].to(y.scalar_type())) : out_(ctx, y, seq)};
  })[0];
  return {ctx.gather(x, seq)};
}

KINORA_COMPONENT(Ar)
KINORA_PLUGIN(Ar)

}  // namespace kinora::ar
