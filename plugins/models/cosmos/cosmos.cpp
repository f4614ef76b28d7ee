// model/cosmos: the video diffusion transformer of Cosmos-Predict 1 and 2 (arXiv 2501.03575, section 5).
// Layout, names and numbers are those of diffusers' CosmosTransformer3DModel.
//
// B batch, C channels, T H W the latent's frames, rows, columns; F h w the tokens'; N = F * h * w; R rows of
// conditioning (1, F or N); D width. For a packed row of n videos, see kinora/videos.hpp.
#include <cmath>
#include <vector>

#include "kernels/torch/modulate.hpp"
#include "kinora/model.hpp"
#include "kinora/patches.hpp"
#include "kinora/plugin.hpp"
#include "kinora/signals.hpp"
#include "plugins/models/cosmos/block.hpp"

namespace kinora::cosmos {

using at::Tensor;

namespace {

[[noreturn]] void refuse(const std::string& what) {
  throw Error(KINORA_ERROR_INVALID, "model/cosmos: " + what);
}

// x [B, N] of tokens, equal for all that share a number of the timestep: returns one for each number.
Tensor as_given(const Tensor& x, const Named<Tensor>& in, const Videos& videos) {
  const Tensor given = in["timestep"];
  const auto n = videos.packed() ? given.size(0) : videos.timestep(in).size(1);
  if (n == x.size(1)) return x.reshape(given.sizes());
  const bool of_videos = n == static_cast<int64_t>(videos.tokens().size());
  std::vector<int64_t> first;
  int64_t at = 0;
  for (const auto& [F, h, w] : videos.tokens())
    for (int64_t i = 0; i < F; ++i, at += h * w)
      if (i == 0 || !of_videos) first.push_back(at);
  return x.index_select(1, at::tensor(first, at::kLong).to(x.device())).reshape(given.sizes());
}

}  // namespace

class Cosmos final : public Model<at::Tensor> {
 public:
  using Options = Config;
  static void describe(Describe<Options>& d) { cosmos::describe(d); }
  Cosmos(const Options& o, const Ctx& ctx);
  std::vector<at::Tensor> forward(const Ctx& ctx, const Named<at::Tensor>& in) override;
  int64_t blocks() const override { return options_.layers + 2; }

 private:
  // The latent with its mask channels, validated.
  at::Tensor input(const Named<at::Tensor>& in, const Videos& videos) const;
  at::Tensor padding(const Named<at::Tensor>& in, const Videos& videos, const at::Tensor& x) const;
  // x: the local tokens, for their dtype and device.
  Shared shared(const Ctx& ctx, const Named<at::Tensor>& in, const Videos& videos, kinora_seq seq,
                const at::Tensor& x) const;
  Videos::Size patch() const { return {options_.patch_time, options_.patch_space, options_.patch_space}; }
  void declare_position(const Ctx& ctx);
  void declare_variance(const Ctx& ctx);
  void condition(const Ctx& ctx, const Named<at::Tensor>& in, const Videos& videos, const at::Tensor& x,
                 Shared& s) const;
  at::Tensor learnt_position(const Ctx& ctx, kinora_seq seq, const at::Tensor& x) const;
  // x: tokens. timestep: undefined, or [B, R], whose log-variance is then the last channel.
  at::Tensor head(const Ctx& ctx, kinora_seq seq, const at::Tensor& x, const Shared& s,
                  const at::Tensor& timestep) const;
  at::Tensor log_variance(const Ctx& ctx, const at::Tensor& timestep) const;

  Options options_;
  Linear embed_, out_;
  Embedder time_;
  kinora_param time_norm_;
  std::vector<kinora_param> position_;  // time, rows, columns, if learnt
  std::vector<Block> blocks_;
  Modulation norm_out_;
  Signals signals_;
  kinora_param frequencies_ = 0, phases_ = 0;  // for logvar, if requested
  Linear variance_;
};

Cosmos::Cosmos(const Options& given, const Ctx& ctx)
    : options_(checked(given)),
      norm_out_(Declare(ctx, "norm_out.", options_.layers + 1), options_, 2),
      signals_(ctx, signals_of(options_), options_.width(), options_.text_size, "model/cosmos") {
  const auto& c = options_;
  const auto D = c.width(), patch = c.patch_time * c.patch_space * c.patch_space;
  embed_ = Declare(ctx, "", 0).linear("patch_embed.proj", D, (c.in_channels + c.concat_padding_mask) * patch);
  const Declare outside(ctx, "", -1);
  time_ = {outside.linear("time_embed.t_embedder.linear_1", D, D, Init::normal(0.02)),
           outside.linear("time_embed.t_embedder.linear_2", 3 * D, D, Init::zeros())};
  time_norm_ = outside.weight("time_embed.norm", {D}, Init::ones());
  for (int64_t i = 1; i <= c.layers; ++i) blocks_.emplace_back(ctx, c, i);
  out_ = Declare(ctx, "", c.layers + 1).linear("proj_out", patch * c.out_channels, D, Init::zeros());
  if (c.learnable_pos_embed) declare_position(ctx);
  if (c.logvar) declare_variance(ctx);
}

void Cosmos::declare_position(const Ctx& ctx) {
  const auto& c = options_;
  const int64_t sizes[] = {c.max_size[0] / c.patch_time, c.max_size[1] / c.patch_space,
                           c.max_size[2] / c.patch_space};
  const char* axes[] = {"t", "h", "w"};
  const Declare declare(ctx, "learnable_pos_embed.", -1);
  for (size_t i = 0; i < 3; ++i)
    position_.push_back(
        declare(std::string("pos_emb_") + axes[i], {sizes[i], c.width()}, Init::normal(0.02), Role::table));
}

// Random Fourier features of 128 frequencies, then a linear layer; the names are cosmos-predict1's.
void Cosmos::declare_variance(const Ctx& ctx) {
  Parameter p;
  p.block = options_.layers + 1;
  p.shape = {128};
  p.frozen = true;
  p.name = "logvar.0.freqs";
  p.init = Init::normal(2 * M_PI);
  frequencies_ = ctx.parameter(p);
  p.name = "logvar.0.phases";
  p.init = Init::uniform(M_PI);
  phases_ = ctx.parameter(p);
  variance_ = Declare(ctx, "", p.block).linear("logvar.1", 1, 128, Init::zeros());
}

Tensor Cosmos::input(const Named<Tensor>& in, const Videos& videos) const {
  const auto& c = options_;
  const Tensor x = latent_with(in, "condition_mask", c.in_channels, "model/cosmos");
  return c.concat_padding_mask ? at::cat({x, padding(in, videos, x)}, 1) : x;
}

Tensor Cosmos::padding(const Named<Tensor>& in, const Videos& videos, const Tensor& x) const {
  const Tensor given = in.has("padding_mask") ? in["padding_mask"].to(x.scalar_type()) : Tensor();
  if (given.defined() && (given.dim() != 4 || (given.size(0) != 1 && given.size(0) != videos.count())))
    refuse(c10::str("padding_mask has shape ", given.sizes(), ", needed is [1 or ", videos.count(),
                    ", 1, any, any]"));
  std::vector<Tensor> all;
  for (const auto& [T, H, W] : videos.latents()) {
    const auto i = given.defined() && given.size(0) > 1 ? static_cast<int64_t>(all.size()) : 0;
    Tensor mask = at::zeros({1, 1, H, W}, x.options());
    if (given.defined())
      mask = at::upsample_nearest2d(videos.packed() ? given.narrow(0, i, 1) : given, {H, W});
    all.push_back(mask.unsqueeze(2).expand({videos.packed() ? 1 : x.size(0), 1, T, H, W}));
  }
  if (!videos.packed()) return all[0];
  for (auto& t : all) t = t.flatten(2);
  return at::cat(all, 2);
}

// Signals are added where cosmos-predict1 adds its further embeddings (networks/general_dit.py): before
// affline_norm.
void Cosmos::condition(const Ctx& ctx, const Named<Tensor>& in, const Videos& videos, const Tensor& x,
                       Shared& s) const {
  const auto D = options_.width();
  const auto type = x.scalar_type();
  const Tensor waves = sinusoid(videos.timestep(in), D).to(type);
  const Tensor level = signals_.add(ctx, in, videos, type, videos.rows(waves));
  s.embedding = rms_norm(ctx, level, time_norm_, 1e-6);
  s.modulation = videos.rows(time_(ctx, waves));
  s.modulation = videos.spread(s.modulation, level.size(1));
}

Tensor Cosmos::learnt_position(const Ctx& ctx, kinora_seq seq, const Tensor& x) const {
  const Tensor table = ctx.table(seq, Place::stream);
  const int64_t columns[] = {KINORA_TOKEN_TIME, KINORA_TOKEN_ROW, KINORA_TOKEN_COL};
  Tensor sum;
  for (size_t i = 0; i < 3; ++i) {
    const Tensor one = ctx.lookup(table.select(2, columns[i]), position_[i], seq);
    sum = sum.defined() ? sum + one : one;
  }
  const Tensor rms = at::linalg_vector_norm(sum, 2, {-1}, true, wide_type(sum)) /
                     std::sqrt(static_cast<double>(options_.width()));
  return (sum / (rms + 1e-6)).to(x.scalar_type());
}

Shared Cosmos::shared(const Ctx& ctx, const Named<Tensor>& in, const Videos& videos, kinora_seq seq,
                      const Tensor& x) const {
  const auto& c = options_;
  Shared s;
  condition(ctx, in, videos, x, s);
  s.row = videos.row_of_token(ctx, seq, s.embedding.size(1));
  const Text text = unconditional_if_hidden(read_text(in, x, videos.count(), c.text_size, "model/cosmos"));
  s.text = text.tokens, s.text_mask = text.mask;
  signals_.append(ctx, in, s.text, s.text_mask);
  if (videos.packed()) s.text_table = joined_text(videos, s.text, s.text_mask);
  const Tensor table = ctx.table(seq, Place::inner);
  const Tensor rate = c.base_fps > 0 && in.has("fps") ? videos.rate(in["fps"], c.base_fps, table) : Tensor();
  s.turns = rope_turns(table, c.head_size, c.rope_scale, rate, x);
  if (c.learnable_pos_embed) s.position = learnt_position(ctx, seq, x);
  return s;
}

Tensor Cosmos::log_variance(const Ctx& ctx, const Tensor& timestep) const {
  const auto type = wide_type(timestep);
  const Tensor waves = at::addcmul(ctx.value(phases_).to(type), timestep.to(type).unsqueeze(-1),
                                   ctx.value(frequencies_).to(type))
                           .cos();
  return variance_(ctx, waves * std::sqrt(2.0));
}

Tensor Cosmos::head(const Ctx& ctx, kinora_seq seq, const Tensor& tokens, const Shared& s,
                    const Tensor& timestep) const {
  const auto m = norm_out_(ctx, s);
  const Tensor x = out_(ctx, modulate(tokens, m[0], m[1], 1e-6), seq);
  if (!timestep.defined()) return x;
  Tensor variance = log_variance(ctx, timestep).to(x.scalar_type());
  if (variance.size(1) > 1) variance = at_rows(variance, s.row);
  return at::cat({x, variance.expand({x.size(0), x.size(1), 1})}, 2);
}

std::vector<Tensor> Cosmos::forward(const Ctx& ctx, const Named<Tensor>& in) {
  const auto& c = options_;
  const Videos videos(in, in["latent"], patch(), "model/cosmos");
  kinora_seq seq = 0;
  Tensor x = videos.patches(
      input(in, videos), [&](const Tensor& v) { return patchify(v, patch(), PatchOrder::channels_first); });
  x = videos.sequence(ctx, x, seq);
  videos.refuse_above(c.max_size, ctx.table(seq, Place::stream));
  const Shared s = shared(ctx, in, videos, seq, x);
  const auto has = s.has();

  using Tensors = std::vector<Tensor>;
  x = ctx.block(0, {x}, {}, 1,
                [this, ctx, seq](const Tensors& t) { return Tensors{embed_(ctx, t[0], seq)}; })[0];
  for (size_t i = 0; i < blocks_.size(); ++i)
    x = ctx.block(static_cast<int64_t>(i) + 1, {x}, s.pack(), 1, [this, ctx, seq, i, has](const Tensors& t) {
      return Tensors{blocks_[i](ctx, seq, t[0], Shared::unpack(t, 1, has))};
    })[0];
  Shared last;
  last.embedding = s.embedding, last.modulation = s.modulation, last.row = s.row;
  auto of_last = last.pack();
  if (c.logvar)
    of_last.insert(of_last.begin(), videos.spread(videos.rows(videos.timestep(in)), s.embedding.size(1)));
  x = ctx.block(c.layers + 1, {x}, of_last, 1,
                [this, ctx, seq, variance = c.logvar, last_has = last.has()](const Tensors& t) {
                  const Shared its = Shared::unpack(t, variance ? 2 : 1, last_has);
                  return Tensors{head(ctx, seq, t[0], its, variance ? t[1] : Tensor())};
                })[0];
  x = ctx.gather(x, seq);
  const auto video = [&](const Tensor& t, int64_t F, int64_t h, int64_t w) {
    return unpatchify(t, {F, h, w}, patch(), PatchOrder::space_first);
  };
  if (!c.logvar) return {videos.latent(x, video)};
  // It left together with the tokens, so its gradient arrives once, however many ranks hold them.
  const auto channels = x.size(2) - 1;
  return {videos.latent(x.narrow(2, 0, channels), video), as_given(x.select(2, channels), in, videos)};
}

KINORA_COMPONENT(Cosmos)
KINORA_PLUGIN(Cosmos)

}  // namespace kinora::cosmos
