#include "plugins/tokenizers/wan/network.hpp"

#include <algorithm>

#include "kinora/error.hpp"

namespace kinora::wan {
namespace {

using at::Tensor;

std::string numbered(const std::string& name, int64_t i) { return name + "." + std::to_string(i); }

template <class L, class... Args>
void add(Stage& s, const Args&... args) {
  s.layers.push_back(std::make_unique<L>(args...));
}

Stage middle(const Declaring& d, const std::string& name, int64_t channels) {
  const Declare at = d.block();
  Stage s{at.block(), {}, nullptr};
  add<ResidualBlock>(s, at, name + ".resnets.0", channels, channels);
  add<AttentionBlock>(s, at, name + ".attentions.0", channels);
  add<ResidualBlock>(s, at, name + ".resnets.1", channels, channels);
  return s;
}

// Channels of the shortcut of a level in the residual family.
void check_shortcut(int64_t from, int64_t to, const char* base) {
  if (from % to)
    throw Error(KINORA_ERROR_INVALID, std::string("tokenizer/wan: ") + base +
                                          " and dim_mult take a level from " + std::to_string(to) +
                                          " channels to a number that " + std::to_string(from) +
                                          " does not divide into; change dim_mult");
}

// 2.2: a level is one block with a shortcut.
Stage residual_down(const Declaring& d, const Config& c, int64_t level, int64_t in, int64_t out) {
  const Declare at = d.block();
  const std::string name = numbered("encoder.down_blocks", level);
  const bool last = level == c.levels() - 1;
  const int64_t time = !last && c.time_at(level) ? 2 : 1, space = last ? 1 : 2;
  check_shortcut(in * time * space * space, out, "base_dim");
  Stage s{at.block(), {}, [=](const Tensor& x, bool) { return average_down(x, out, time, space); }};
  for (int64_t i = 0; i < c.num_res_blocks; ++i)
    add<ResidualBlock>(s, at, numbered(name + ".resnets", i), i ? out : in, out);
  if (!last) add<Downsample>(s, at, name + ".downsampler", out, time == 2);
  return s;
}

// 2.1: a flat list.
void plain_down(const Declaring& d, const Config& c, int64_t level, int64_t in, int64_t out, double scale,
                std::vector<Stage>& to) {
  const auto next = [&](auto make) {
    const Declare at = d.block();
    to.push_back({at.block(), {}, nullptr});
    make(to.back(), at, numbered("encoder.down_blocks", static_cast<int64_t>(to.size()) - 1));
  };
  const bool attention = std::find(c.attn_scales.begin(), c.attn_scales.end(), scale) != c.attn_scales.end();
  for (int64_t i = 0; i < c.num_res_blocks; ++i) {
    next([&](Stage& s, const Declare& at, const std::string& name) {
      add<ResidualBlock>(s, at, name, i ? out : in, out);
    });
    if (attention)
      next([&](Stage& s, const Declare& at, const std::string& name) {
        add<AttentionBlock>(s, at, name, out);
      });
  }
  if (level < c.levels() - 1)
    next([&](Stage& s, const Declare& at, const std::string& name) {
      add<Downsample>(s, at, name, out, c.time_at(level));
    });
}

// The deepest level is up_blocks.0.
Stage up(const Declaring& d, const Config& c, int64_t i, int64_t in, int64_t out) {
  const Declare at = d.block();
  const std::string name = numbered("decoder.up_blocks", i);
  const bool last = i == c.levels() - 1, time = !last && c.time_at(c.levels() - 2 - i);
  Stage s{at.block(), {}, nullptr};
  for (int64_t k = 0; k <= c.num_res_blocks; ++k)
    add<ResidualBlock>(s, at, numbered(name + ".resnets", k), k ? out : in, out);
  if (last) return s;
  if (!c.is_residual) {
    add<Upsample>(s, at, name + ".upsamplers.0", out, out / 2, time);
    return s;
  }
  add<Upsample>(s, at, name + ".upsampler", out, out, time);
  const int64_t factor = time ? 2 : 1;
  check_shortcut(out * factor * 4, in, "decoder_base_dim");
  s.shortcut = [=](const Tensor& x, bool first) { return repeat_up(x, out, factor, 2, first); };
  return s;
}

int64_t slots_of(const Layers& layers) {
  int64_t n = 0;
  for (const auto& l : layers) n += l->slots();
  return n;
}

}  // namespace

Tensor Stage::inside(const Pass& run, const Tensor& x) const {
  Tensor y = x;
  for (const auto& layer : layers) y = (*layer)(run, y);
  return shortcut ? y + shortcut(x, run.first()) : y;
}

// The block's history is passed in and out as tensors, so that a link may run it again, and gradients flow
// through the state between pieces.
Tensor Stage::operator()(const Pass& run, const Tensor& x) const {
  History& all = *run.history;
  const bool first = all.first;
  const auto n = static_cast<size_t>(slots_of(layers));
  if (first) all.slots.resize(all.next + n);
  const auto own = all.slots.begin() + static_cast<int64_t>(all.next);
  std::vector<Tensor> past;
  if (!first) past.assign(own, own + static_cast<int64_t>(n));
  auto out = run.ctx.block(block, {x}, past, static_cast<uint32_t>(1 + n),
                           [this, ctx = run.ctx, first](const std::vector<Tensor>& in) {
                             History h{first, 0, {in.begin() + 1, in.end()}};
                             std::vector<Tensor> made{inside(Pass{ctx, &h}, in[0])};
                             made.insert(made.end(), h.slots.begin(), h.slots.end());
                             return made;
                           });
  std::move(out.begin() + 1, out.end(), own);
  all.next += n;
  return out[0];
}

Encoder::Encoder(const Declaring& d, const Config& c)
    : in_(d.ctx, "encoder.conv_in", c.in_channels, c.base_dim),
      norm_(d.ctx, "encoder.norm_out", c.dim(c.base_dim, c.levels() - 1), 4),
      out_(d.ctx, "encoder.conv_out", c.dim(c.base_dim, c.levels() - 1), 2 * c.z_dim),
      quant_(d.ctx, "quant_conv", 2 * c.z_dim, 2 * c.z_dim, {1, 1, 1}) {
  int64_t in = c.base_dim;
  double scale = 1;
  for (int64_t level = 0; level < c.levels(); ++level, scale /= 2) {
    const int64_t out = c.dim(c.base_dim, level);
    if (c.is_residual)
      stages_.push_back(residual_down(d, c, level, in, out));
    else
      plain_down(d, c, level, in, out, scale, stages_);
    in = out;
  }
  stages_.push_back(middle(d, "encoder.mid_block", in));
}

Tensor Encoder::operator()(const Pass& run, const Tensor& patches) const {
  Tensor x = in_(run, patches);
  for (const auto& stage : stages_) x = stage(run, x);
  return quant_.pointwise(run, out_(run, norm_(run, x, true)));
}

Decoder::Decoder(const Declaring& d, const Config& c)
    : post_quant_(d.ctx, "post_quant_conv", c.z_dim, c.z_dim, {1, 1, 1}),
      in_(d.ctx, "decoder.conv_in", c.z_dim, c.dim(c.decoder_base_dim, c.levels() - 1)),
      norm_(d.ctx, "decoder.norm_out", c.dim(c.decoder_base_dim, 0), 4),
      out_(d.ctx, "decoder.conv_out", c.dim(c.decoder_base_dim, 0), c.out_channels) {
  int64_t in = c.dim(c.decoder_base_dim, c.levels() - 1);
  stages_.push_back(middle(d, "decoder.mid_block", in));
  for (int64_t i = 0; i < c.levels(); ++i) {
    const int64_t out = c.dim(c.decoder_base_dim, c.levels() - 1 - i);
    stages_.push_back(up(d, c, i, i && !c.is_residual ? in / 2 : in, out));
    in = out;
  }
}

Tensor Decoder::operator()(const Pass& run, const Tensor& latent) const {
  Tensor x = in_(run, post_quant_.pointwise(run, latent));
  for (const auto& stage : stages_) x = stage(run, x);
  return out_(run, norm_(run, x, true));
}

}  // namespace kinora::wan
