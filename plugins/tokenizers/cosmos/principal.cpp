#include "plugins/tokenizers/cosmos/principal.hpp"

#include <algorithm>
#include <cmath>

#include "kinora/error.hpp"

namespace kinora::cosmos {
namespace {

using at::Tensor;
using Values = std::vector<std::pair<std::string, Tensor>>;

// Ratio of the constant's power to that of all other numbers: a frame of twice the usual power then has an
// error of 1 / (2 * kAnchor).
constexpr double kAnchor = 100;

[[noreturn]] void refuse(const std::string& why) {
  throw Error(KINORA_ERROR_UNSUPPORTED, "tokenizer/cosmos: the start by principal components " + why);
}

void check(const Config& c) {
  if (c.discrete() || c.image) refuse("is that of continuous video tokenizers, not of codes or images");
  const int64_t needed = 2 * c.latent_channels + 2;
  for (const auto& levels : {encoder_levels(c), decoder_levels(c)})
    for (const auto& l : levels) {
      if (l.space || l.time)
        refuse(
            "needs a latent of one number set a patch: set spatial_compression_ratio and "
            "temporal_compression_ratio to patch_size");
      if (std::min(l.in, l.out) < needed)
        refuse(
            "needs " + std::to_string(needed) + " channels or more in every block (twice latent_channels " +
            std::to_string(c.latent_channels) + ", and two), not " + std::to_string(std::min(l.in, l.out)));
    }
}

// A factorised convolution that computes x -> m x + b at every pixel. m [out, in], b [out].
void set_pointwise(Values& to, const std::string& name, const Tensor& m, const Tensor& b) {
  const int64_t out = m.size(0);
  Tensor space = at::zeros({out, m.size(1), 1, 3, 3}, m.options()),
         time = at::zeros({out, out, 3, 1, 1}, m.options());
  space.select(4, 1).select(3, 1).select(2, 0).copy_(m);
  time.select(2, 2).flatten(1).copy_(at::eye(out, m.options()));
  to.emplace_back(name + ".conv_s.weight", space);
  to.emplace_back(name + ".conv_s.bias", b);
  to.emplace_back(name + ".conv_t.weight", time);
  to.emplace_back(name + ".conv_t.bias", at::zeros({out}, m.options()));
}

// m x + b with both signs, channel by channel, then the constant.
void set_in(Values& to, const std::string& name, const Tensor& m, const Tensor& b, int64_t width) {
  const double anchor = std::sqrt(kAnchor * static_cast<double>(m.size(0)));
  const auto both = [&](const Tensor& x, double last) {
    const Tensor signs = at::stack({x, -x}, 1).flatten(0, 1);
    Tensor all = at::zeros({width, x.dim() == 1 ? 1 : x.size(1)}, x.options());
    all.narrow(0, 0, signs.size(0)).copy_(x.dim() == 1 ? signs.unsqueeze(1) : signs);
    all.select(0, signs.size(0)).fill_(last);
    all.select(0, signs.size(0) + 1).fill_(-last);
    return x.dim() == 1 ? all.squeeze(1) : all;
  };
  set_pointwise(to, name, both(m, 0), both(b, anchor));
}

// The inverse: n numbers of mean power 1 from `width` channels, after norm and silu: m u + b.
void set_out(Values& to, const std::string& name, const Tensor& m, const Tensor& b, int64_t width) {
  const auto n = static_cast<double>(m.size(1));
  const double deviation = std::sqrt(2 * n * (kAnchor + 1) / static_cast<double>(width));
  Tensor all = at::zeros({m.size(0), width}, m.options());
  all.narrow(1, 0, 2 * m.size(1)).copy_(at::stack({m, -m}, 2).flatten(1) * deviation);
  set_pointwise(to, name, all, b);
}

void set_shortcuts(Values& to, const std::string& stem, const std::vector<Level>& levels,
                   const Tensor& like) {
  for (size_t i = 0; i < levels.size(); ++i) {
    if (levels[i].in == levels[i].out) continue;
    const std::string name = stem + "." + std::to_string(i) + ".resnets.0.conv_shortcut";
    to.emplace_back(
        name + ".weight",
        at::eye(levels[i].out, levels[i].in, like.options()).view({levels[i].out, levels[i].in, 1, 1, 1}));
    to.emplace_back(name + ".bias", at::zeros({levels[i].out}, like.options()));
  }
}

}  // namespace

Values principal_start(const Config& c, const Tensor& patches) {
  check(c);
  const Tensor x = patches.detach().to(at::kDouble).flatten(0, -2);  // [N, D]
  const int64_t n = c.latent_channels, D = x.size(1);
  if (n > D || x.size(0) <= n)
    refuse("needs latent_channels of at most " + std::to_string(D) + " and more patches than that, not " +
           std::to_string(n) + " of " + std::to_string(x.size(0)) + " patches");
  const Tensor mean = x.mean(0), centred = x - mean;
  const auto [variance, vectors] =
      at::linalg_eigh(at::matmul(centred.t(), centred) / static_cast<double>(x.size(0)));
  Tensor axes = vectors.narrow(1, D - n, n).flip(1);  // [D, n], the largest variance first
  // The sign of an eigenvector is arbitrary: make its largest entry positive.
  axes = axes * axes.gather(0, axes.abs().argmax(0, true)).sign();
  const double power =
      std::max(variance.narrow(0, D - n, n).mean().item<double>(), 1e-12);  // zero for a still grey video
  const Tensor in = axes.t() / std::sqrt(power), out = axes * std::sqrt(power), eye = at::eye(n, x.options()),
               none = at::zeros({n}, x.options());

  Values to;
  const auto down = encoder_levels(c), up = decoder_levels(c);
  set_in(to, "encoder.conv_in", in, -at::mv(in, mean), down.front().in);
  set_shortcuts(to, "encoder.down_blocks", down, x);
  set_out(to, "encoder.conv_out", eye, none, down.back().out);
  set_in(to, "decoder.conv_in", eye, none, up.front().in);
  set_shortcuts(to, "decoder.up_blocks", up, x);
  set_out(to, "decoder.conv_out", out, mean, up.back().out);
  for (const char* name : {"quant_conv", "post_quant_conv"}) {
    to.emplace_back(std::string(name) + ".weight", eye.view({n, n, 1, 1, 1}));
    to.emplace_back(std::string(name) + ".bias", none);
  }
  return to;
}

}  // namespace kinora::cosmos
