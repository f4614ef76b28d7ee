#include "plugins/tokenizers/wan/layers.hpp"

#include <algorithm>
#include <cmath>

#include <c10/core/GradMode.h>

namespace kinora::wan {
namespace {

using at::Tensor;

// [B, T, H, W, C] as an NHWC batch of images [B * T, C, H, W], and back.
Tensor images(const Tensor& x) { return x.flatten(0, 1).permute({0, 3, 1, 2}); }
Tensor clip(const Tensor& y, int64_t batch) {
  return y.permute({0, 2, 3, 1}).contiguous().unflatten(0, {batch, y.size(0) / batch});
}
Tensor conv3d(const Tensor& x, const Tensor& w, const Tensor& b, int64_t stride, int64_t padding) {
  const Tensor y =
      at::conv3d(x.permute({0, 4, 1, 2, 3}), w, b, {stride, 1, 1}, at::IntArrayRef{0, padding, padding});
  return y.permute({0, 2, 3, 4, 1}).contiguous();
}

// Both halves of a 3-tap kernel on a repeated axis: repetition makes neighbours equal, so an even output
// uses (w0, w1 + w2) of two source pixels, and an odd one (w0 + w1, w2).
std::pair<Tensor, Tensor> folded(const Tensor& w, int64_t axis) {
  const Tensor a = w.narrow(axis, 0, 1), b = w.narrow(axis, 1, 1), c = w.narrow(axis, 2, 1);
  return {at::cat({a, b + c}, axis), at::cat({a + b, c}, axis)};
}

}  // namespace

Kernel::Kernel(const Declare& at, const std::string& name, int64_t out, int64_t in,
               std::vector<int64_t> kernel) {
  auto fan_in = static_cast<double>(in);
  for (const int64_t k : kernel) fan_in *= static_cast<double>(k);
  const Init init = Init::uniform(1 / std::sqrt(fan_in));
  kernel.insert(kernel.begin(), {out, in});
  weight = at(name + ".weight", std::move(kernel), init);
  bias = at(name + ".bias", {out}, init);
}

Tensor Kernel::pointwise(const Pass& run, const Tensor& x) const {
  return at::linear(x, run.value(weight, x).flatten(1), run.value(bias, x));
}

CausalConv::CausalConv(const Declare& at, const std::string& name, int64_t in, int64_t out, int64_t space)
    : kernel_(at, name, out, in, {3, space, space}), padding_(space / 2) {}

Tensor CausalConv::operator()(const Pass& run, const Tensor& x) const {
  const Tensor past = run.past();
  const int64_t before = past.defined() ? past.size(1) : 0, zeros = 2 - before;
  Tensor y = before ? at::cat({past, x}, 1) : x, w = run.value(kernel_.weight, x);
  const int64_t kept = std::min<int64_t>(2, y.size(1));
  run.keep(y.narrow(1, y.size(1) - kept, kept).clone());
  if (x.size(1) == 1)
    w = w.narrow(2, zeros, 3 - zeros);  // drops taps that only multiply zeros
  else if (zeros)
    y = at::constant_pad_nd(y, {0, 0, 0, 0, 0, 0, zeros, 0});
  return conv3d(y, w, run.value(kernel_.bias, x), 1, padding_);
}

RmsNorm::RmsNorm(const Declare& at, const std::string& name, int64_t channels, int64_t dims) {
  std::vector<int64_t> shape(static_cast<size_t>(dims), 1);
  shape[0] = channels;
  gamma_ = at(name + ".gamma", std::move(shape), Init::ones());
}

Tensor RmsNorm::operator()(const Pass& run, const Tensor& x, bool silu) const {
  const bool half = x.scalar_type() == at::kHalf || x.scalar_type() == at::kBFloat16;
  const Tensor full = half ? x.to(at::kFloat) : x;
  const Tensor length = at::linalg_vector_norm(full, 2, {-1}, true).clamp_min(1e-12);
  const Tensor scale = run.value(gamma_, full).flatten() * std::sqrt(static_cast<double>(x.size(-1)));
  Tensor y = full / length;
  if (c10::GradMode::is_enabled()) return (silu ? at::silu(y * scale) : y * scale).to(x.scalar_type());
  y.mul_(scale);
  if (silu) at::silu_(y);
  return y.to(x.scalar_type());
}

ResidualBlock::ResidualBlock(const Declare& at, const std::string& name, int64_t in, int64_t out)
    : norm1_(at, name + ".norm1", in, 4),
      norm2_(at, name + ".norm2", out, 4),
      conv1_(at, name + ".conv1", in, out),
      conv2_(at, name + ".conv2", out, out) {
  if (in != out) shortcut_.emplace_back(at, name + ".conv_shortcut", out, in, std::vector<int64_t>{1, 1, 1});
}

Tensor ResidualBlock::operator()(const Pass& run, const Tensor& x) const {
  Tensor y = conv1_(run, norm1_(run, x, true));
  y = conv2_(run, norm2_(run, y, true));
  const Tensor around = shortcut_.empty() ? x : shortcut_[0].pointwise(run, x);
  return c10::GradMode::is_enabled() ? y + around : y.add_(around);
}

AttentionBlock::AttentionBlock(const Declare& at, const std::string& name, int64_t channels)
    : norm_(at, name + ".norm", channels, 3),
      qkv_(at, name + ".to_qkv", 3 * channels, channels, {1, 1}),
      proj_(at, name + ".proj", channels, channels, {1, 1}) {}

Tensor AttentionBlock::operator()(const Pass& run, const Tensor& x) const {
  const Tensor tokens = qkv_.pointwise(run, norm_(run, x, false)).flatten(0, 1).flatten(1, 2).unsqueeze(1);
  const auto qkv = tokens.chunk(3, -1);
  const Tensor y = at::scaled_dot_product_attention(qkv[0], qkv[1], qkv[2]);
  return x + proj_.pointwise(run, y.reshape(x.sizes()));
}

Downsample::Downsample(const Declare& at, const std::string& name, int64_t channels, bool time)
    : space_(at, name + ".resample.1", channels, channels, {3, 3}) {
  if (time) time_.emplace_back(at, name + ".time_conv", channels, channels, std::vector<int64_t>{3, 1, 1});
}

Tensor Downsample::operator()(const Pass& run, const Tensor& x) const {
  const Tensor padded = at::constant_pad_nd(x, {0, 0, 0, 1, 0, 1});
  const Tensor y =
      clip(at::conv2d(images(padded), run.value(space_.weight, x), run.value(space_.bias, x), 2), x.size(0));
  if (time_.empty()) return y;
  const Tensor past = run.past();
  run.keep(y.narrow(1, y.size(1) - 1, 1).clone());
  if (run.first()) return y;  // a single frame
  return conv3d(at::cat({past, y}, 1), run.value(time_[0].weight, x), run.value(time_[0].bias, x), 2, 0);
}

Upsample::Upsample(const Declare& at, const std::string& name, int64_t in, int64_t out, bool time)
    : space_(at, name + ".resample.1", out, in, {3, 3}) {
  if (time) time_.emplace_back(at, name + ".time_conv", in, 2 * in, 1);
}

Tensor Upsample::operator()(const Pass& run, const Tensor& x) const {
  if (time_.empty()) return in_space(run, x);
  if (run.first()) {  // a single frame, which the convolution over time does not process
    run.keep(at::empty({x.size(0), 0, x.size(2), x.size(3), x.size(4)}, x.options()));
    return in_space(run, x);
  }
  const Tensor two = time_[0](run, x).unflatten(-1, {2, x.size(4)});  // frames 2 t - 1 and 2 t
  return in_space(run,
                  two.permute({0, 1, 4, 2, 3, 5}).reshape({x.size(0), -1, x.size(2), x.size(3), x.size(4)}));
}

// The four phases of the larger image are convolutions of 2 x 2 taps on the smaller one: 4/9 of the work.
Tensor Upsample::in_space(const Pass& run, const Tensor& x) const {
  const Tensor w = run.ctx.value(space_.weight).to(at::kDouble);  // sums of taps are rounded once
  std::vector<Tensor> phases;
  const auto rows = folded(w, 2);
  for (const Tensor& r : {rows.first, rows.second}) {
    const auto columns = folded(r, 3);
    phases.insert(phases.end(), {columns.first, columns.second});
  }
  const Tensor kernel = at::cat(phases, 0).to(x.scalar_type()), bias = run.value(space_.bias, x).repeat(4);
  // [N, H + 1, W + 1, 4 * out]: position (i, j) of phase (a, b) is pixel (2 (i - a) + a, 2 (j - b) + b)
  const Tensor y = at::conv2d(images(x), kernel, bias, 1, 1).permute({0, 2, 3, 1});
  const auto N = y.size(0), H = x.size(2), W = x.size(3), out = w.size(0);
  const Tensor z = at::empty({N, H, 2, W, 2, out}, y.options().memory_format(at::MemoryFormat::Contiguous));
  for (int64_t a = 0; a < 2; ++a)
    for (int64_t b = 0; b < 2; ++b)
      z.select(4, b).select(2, a).copy_(y.narrow(1, a, H).narrow(2, b, W).narrow(3, (2 * a + b) * out, out));
  return z.view({x.size(0), x.size(1), 2 * H, 2 * W, out});
}

Tensor average_down(const Tensor& x, int64_t out, int64_t time, int64_t space) {
  const auto zeros = (time - x.size(1) % time) % time;
  const Tensor y = zeros ? at::constant_pad_nd(x, {0, 0, 0, 0, 0, 0, zeros, 0}) : x;
  const auto B = y.size(0), T = y.size(1) / time, H = y.size(2) / space, W = y.size(3) / space, C = y.size(4);
  return y.view({B, T, time, H, space, W, space, C})
      .permute({0, 1, 3, 5, 7, 2, 4, 6})
      .reshape({B, T, H, W, out, -1})
      .mean(-1);
}

Tensor repeat_up(const Tensor& x, int64_t out, int64_t time, int64_t space, bool first) {
  const auto B = x.size(0), T = x.size(1), H = x.size(2), W = x.size(3), C = x.size(4);
  const Tensor y = x.repeat_interleave(out * time * space * space / C, -1)
                       .view({B, T, H, W, out, time, space, space})
                       .permute({0, 1, 5, 2, 6, 3, 7, 4})
                       .reshape({B, T * time, H * space, W * space, out});
  return first ? y.narrow(1, time - 1, y.size(1) - time + 1) : y;
}

}  // namespace kinora::wan
