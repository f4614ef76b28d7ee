#include "plugins/tokenizers/cosmos/layers.hpp"

#include <cmath>

namespace kinora::cosmos {
namespace {

using at::Tensor;

// [B, T, H, W, C] as an NHWC batch of images [B * T, C, H, W], and back.
Tensor frames(const Tensor& x) { return x.flatten(0, 1).permute({0, 3, 1, 2}); }
Tensor clip(const Tensor& y, int64_t batch) {
  return y.permute({0, 2, 3, 1}).contiguous().unflatten(0, {batch, y.size(0) / batch});
}

}  // namespace

Tensor extend(const Pass& run, const Tensor& x, int64_t copies, int64_t keep) {
  Tensor* slot = run.history ? &run.history->slot() : nullptr;
  const Tensor front = run.first() ? x.narrow(1, 0, 1).expand({-1, copies, -1, -1, -1}) : *slot;
  Tensor y = at::cat({front, x}, 1);
  if (slot) *slot = y.narrow(1, y.size(1) - keep, keep).detach().clone();
  return y;
}

Conv::Conv(const Scope& at, const std::string& name, int64_t in, int64_t out, int64_t time, int64_t space,
           Start start) {
  const Init random = Init::uniform(1 / std::sqrt(static_cast<double>(in * time * space * space)));
  const Init none = start == Start::random ? random : Init::zeros();
  std::vector<int64_t> shape = {out, in, time, space, space};
  if (at.image) shape.erase(shape.begin() + 2);
  weight_ = at.declare(name + ".weight", shape, start == Start::present ? Init::identity() : none);
  bias_ = at.declare(name + ".bias", {out}, none);
}

Tensor Conv::in_space(const Pass& run, const Tensor& x, int64_t stride, int64_t padding) const {
  const Tensor w = run.value(weight_, x);
  return clip(at::conv2d(frames(x), w.dim() == 5 ? w.squeeze(2) : w, run.value(bias_, x), {stride, stride},
                         {padding, padding}),
              x.size(0));
}

Tensor Conv::in_time(const Pass& run, const Tensor& x, int64_t stride) const {
  const Tensor w = run.value(weight_, x).squeeze(4);
  const Tensor y = at::conv2d(x.flatten(2, 3).permute({0, 3, 1, 2}), w, run.value(bias_, x), {stride, 1});
  return y.permute({0, 2, 3, 1}).contiguous().unflatten(2, {x.size(2), x.size(3)});
}

Tensor Conv::pointwise(const Pass& run, const Tensor& x) const {
  return at::linear(x, run.value(weight_, x).flatten(1), run.value(bias_, x));
}

FrameNorm::FrameNorm(const Scope& at, const std::string& name, int64_t channels)
    : groups_(at.image ? 32 : 1),
      weight_(at.declare(name + (at.image ? ".weight" : ".norm.weight"), {channels}, Init::ones())),
      bias_(at.declare(name + (at.image ? ".bias" : ".norm.bias"), {channels}, Init::zeros())) {}

Tensor FrameNorm::operator()(const Pass& run, const Tensor& x) const {
  // For channels-last images libtorch computes the variance as E[x^2] - E[x]^2, which cancels for a small
  // group far from zero; for contiguous ones as the mean squared deviation.
  const Tensor images = groups_ > 1 ? frames(x).contiguous() : frames(x);
  return clip(at::group_norm(images, groups_, run.value(weight_, x), run.value(bias_, x), 1e-6), x.size(0));
}

FactorisedConv::FactorisedConv(const Scope& at, const std::string& name, int64_t in, int64_t out, Start start)
    : space_(at, at.image ? name : name + ".conv_s", in, out, 1, 3,
             at.image && start == Start::zeros ? start : Start::random) {
  if (!at.image) time_.emplace_back(at, name + ".conv_t", out, out, 3, 1, start);
}

Tensor FactorisedConv::operator()(const Pass& run, const Tensor& x) const {
  const Tensor y = space_.in_space(run, x, 1, 1);
  return time_.empty() ? y : time_[0].in_time(run, extend(run, y, 2, 2), 1);
}

ResnetBlock::ResnetBlock(const Scope& at, const std::string& name, int64_t in, int64_t out)
    : norm1_(at, name + ".norm1", in),
      norm2_(at, name + ".norm2", out),
      conv1_(at, name + ".conv1", in, out),
      conv2_(at, name + ".conv2", out, out, Start::zeros) {
  if (in != out) shortcut_.emplace_back(at, name + ".conv_shortcut", in, out, 1, 1);
}

Tensor ResnetBlock::operator()(const Pass& run, const Tensor& x) const {
  Tensor y = conv1_(run, at::silu(norm1_(run, x)));
  y = conv2_(run, at::silu(norm2_(run, y)));
  return y + (shortcut_.empty() ? x : shortcut_[0].pointwise(run, x));
}

Attend::Attend(const Scope& at, const std::string& name, int64_t channels)
    : norm_(at, name + ".norm", channels),
      q_(at, name + ".to_q", channels, channels, 1, 1),
      k_(at, name + ".to_k", channels, channels, 1, 1),
      v_(at, name + ".to_v", channels, channels, 1, 1),
      out_(at, name + ".to_out.0", channels, channels, 1, 1, Start::zeros) {}

Tensor Attend::over_space(const Pass& run, const Tensor& x) const {
  const Tensor y = norm_(run, x);
  const auto tokens = [&](const Conv& c) {
    return c.pointwise(run, y).flatten(0, 1).flatten(1, 2).unsqueeze(1);
  };
  const Tensor o = at::scaled_dot_product_attention(tokens(q_), tokens(k_), tokens(v_));
  return x + out_.pointwise(run, o.reshape(x.sizes()));
}

Tensor Attend::over_time(const Pass& run, const Tensor& x) const {
  const Tensor y = norm_(run, x);
  // [B, T, H, W, C] -> [B * H * W, 1, T, C]
  const auto tokens = [&](const Conv& c) {
    return c.pointwise(run, y).permute({0, 2, 3, 1, 4}).flatten(0, 2).unsqueeze(1);
  };
  const Tensor q = tokens(q_);
  Tensor k = tokens(k_), v = tokens(v_);
  if (run.history) {
    Tensor &past_k = run.history->slot(), &past_v = run.history->slot();
    if (!run.first()) k = at::cat({past_k, k}, 2), v = at::cat({past_v, v}, 2);
    past_k = k.detach(), past_v = v.detach();
  }
  const auto T = q.size(2), seen = k.size(2);
  const Tensor mask = at::ones({T, seen}, q.options().dtype(at::kBool)).tril(seen - T);
  const Tensor o =
      T > 1 ? at::scaled_dot_product_attention(q, k, v, mask) : at::scaled_dot_product_attention(q, k, v);
  const auto B = x.size(0), H = x.size(2), W = x.size(3), C = x.size(4);
  return x + out_.pointwise(run, o.reshape({B, H, W, T, C}).permute({0, 3, 1, 2, 4}).contiguous());
}

Downsample::Downsample(const Scope& at, const std::string& name, int64_t channels, bool space, bool time) {
  if (space) space_.emplace_back(at, name + (at.image ? ".conv" : ".conv1"), channels, channels, 1, 3);
  if (time) time_.emplace_back(at, name + ".conv2", channels, channels, 3, 1);
  if (!at.image && (space || time)) out_.emplace_back(at, name + ".conv3", channels, channels, 1, 1);
}

Tensor Downsample::operator()(const Pass& run, const Tensor& in) const {
  Tensor x = in;
  if (!space_.empty()) {
    x = space_[0].in_space(run, at::constant_pad_nd(in, {0, 0, 0, 1, 0, 1}), 2, 0);
    if (!out_.empty()) x = x + clip(at::avg_pool2d(frames(in), {2, 2}), in.size(0));
  }
  if (!time_.empty()) {
    // Output j sees frames 2j - 2, 2j - 1, 2j and averages the last two; before the clip its first frame is
    // repeated.
    const Tensor longer = extend(run, x, 2, 1);
    const auto pairs = (longer.size(1) - 1) / 2;
    x = time_[0].in_time(run, longer, 2) + longer.narrow(1, 1, 2 * pairs).unflatten(1, {pairs, 2}).mean(2);
  }
  return out_.empty() ? x : out_[0].pointwise(run, x);
}

Upsample::Upsample(const Scope& at, const std::string& name, int64_t channels, bool space, bool time) {
  if (time) time_.emplace_back(at, name + ".conv1", channels, channels, 3, 1);
  if (space) space_.emplace_back(at, name + (at.image ? ".conv" : ".conv2"), channels, channels, 1, 3);
  if (!at.image && (space || time)) out_.emplace_back(at, name + ".conv3", channels, channels, 1, 1);
}

Tensor Upsample::operator()(const Pass& run, const Tensor& in) const {
  Tensor x = in;
  if (!time_.empty()) {
    x = x.unsqueeze(2).expand({-1, -1, 2, -1, -1, -1}).flatten(1, 2);
    if (run.first()) x = x.narrow(1, 1, x.size(1) - 1);
    x = time_[0].in_time(run, extend(run, x, 2, 2), 1) + x;
  }
  if (!space_.empty()) {
    x = clip(at::upsample_nearest2d(frames(x), {2 * x.size(2), 2 * x.size(3)}), x.size(0));
    const Tensor y = space_[0].in_space(run, x, 1, 1);
    x = out_.empty() ? y : y + x;
  }
  return out_.empty() ? x : out_[0].pointwise(run, x);
}

}  // namespace kinora::cosmos
