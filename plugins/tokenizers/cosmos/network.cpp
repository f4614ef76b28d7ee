#include "plugins/tokenizers/cosmos/network.hpp"

#include <bit>
#include <vector>

namespace kinora::cosmos {
namespace {

std::string numbered(const std::string& name, size_t i) { return name + "." + std::to_string(i); }

// Over space and, for a video, over time.
std::vector<Attend> attention(const Scope& at, const std::string& name, size_t i, int64_t channels) {
  std::vector<Attend> out;
  out.emplace_back(at, numbered(name + ".attentions", i), channels);
  if (!at.image) out.emplace_back(at, numbered(name + ".temp_attentions", i), channels);
  return out;
}

at::Tensor attended(const Pass& run, at::Tensor x, const std::vector<Attend>& layers) {
  if (!layers.empty()) x = layers[0].over_space(run, x);
  return layers.size() < 2 ? x : layers[1].over_time(run, x);
}

}  // namespace

Stack::Stack(const Scope& outside, const std::string& name, int64_t in, int64_t out, int64_t n, bool attend,
             int64_t& block)
    : block_(block) {
  for (size_t i = 0; i < static_cast<size_t>(n); ++i) {
    const Scope at = outside.in(block++);
    Layer layer{ResnetBlock(at, numbered(name + ".resnets", i), i ? out : in, out), {}};
    if (attend) layer.attend = attention(at, name, i, out);
    layers_.push_back(std::move(layer));
  }
}

at::Tensor Stack::Layer::operator()(const Pass& run, const at::Tensor& x) const {
  return attended(run, resnet(run, x), attend);
}

at::Tensor Stack::operator()(const Pass& run, at::Tensor x) const {
  for (size_t i = 0; i < layers_.size(); ++i) x = run.block(block_ + static_cast<int64_t>(i), x, layers_[i]);
  return x;
}

Middle::Middle(const Scope& at, const std::string& name, int64_t channels)
    : first_(at, name + ".resnets.0", channels, channels),
      last_(at, name + ".resnets.1", channels, channels),
      attend_(attention(at, name, 0, channels)) {}

at::Tensor Middle::operator()(const Pass& run, const at::Tensor& x) const {
  return last_(run, attended(run, first_(run, x), attend_));
}

Encoder::Encoder(const Scope& outside, const Config& c, int64_t patch_channels, int64_t& block)
    : levels_(encoder_levels(c)),
      in_(outside, "encoder.conv_in", patch_channels, levels_.front().in),
      middle_block_(block++),
      middle_(outside.in(middle_block_), "encoder.mid_block", levels_.back().out),
      norm_(outside, "encoder.norm_out", levels_.back().out),
      out_(outside, "encoder.conv_out", levels_.back().out, c.latent_channels) {
  for (size_t i = 0; i < levels_.size(); ++i) {
    const auto& l = levels_[i];
    const std::string name = numbered("encoder.down_blocks", i);
    stacks_.emplace_back(outside, name, l.in, l.out, c.num_layers, l.attention, block);
    if (l.resample) down_.emplace_back(outside, name + ".downsamplers.0", l.out, l.space, l.time);
  }
}

at::Tensor Encoder::operator()(const Pass& run, const at::Tensor& patches) const {
  at::Tensor x = in_(run, patches);
  for (size_t i = 0; i < stacks_.size(); ++i) {
    x = stacks_[i](run, x);
    if (i < down_.size()) x = down_[i](run, x);
  }
  return out_(run, at::silu(norm_(run, run.block(middle_block_, x, middle_))));
}

Decoder::Decoder(const Scope& outside, const Config& c, int64_t patch_channels, int64_t& block)
    : levels_(decoder_levels(c)),
      in_(outside, "decoder.conv_in", c.latent_channels, levels_.front().in),
      middle_block_(block++),
      middle_(outside.in(middle_block_), "decoder.mid_block", levels_.front().in),
      norm_(outside, "decoder.norm_out", levels_.back().out),
      out_(outside, "decoder.conv_out", levels_.back().out, patch_channels, Start::zeros) {
  for (size_t i = 0; i < levels_.size(); ++i) {
    const auto& l = levels_[i];
    const std::string name = numbered("decoder.up_blocks", i);
    stacks_.emplace_back(outside, name, l.in, l.out, c.num_layers + 1, l.attention, block);
    if (l.resample) up_.emplace_back(outside, name + ".upsamplers.0", l.out, l.space, l.time);
  }
}

at::Tensor Decoder::operator()(const Pass& run, const at::Tensor& latent) const {
  at::Tensor x = run.block(middle_block_, in_(run, latent), middle_);
  for (size_t i = 0; i < stacks_.size(); ++i) {
    x = stacks_[i](run, x);
    if (i < up_.size()) x = up_[i](run, x);
  }
  return out_(run, at::silu(norm_(run, x)));
}

Patcher::Patcher(int64_t size, const std::string& type, bool image)
    : p_(size),
      time_(image ? 1 : size),
      levels_(type == "haar" ? std::countr_zero(static_cast<uint64_t>(size)) : 0),
      image_(image) {}

// Row: band, column: pixel of the patch. A level splits each axis into sums (low) and differences (high); the
// first level works on neighbouring pixels, the next on its averages. A band's index has one bit per axis and
// level, T H W (for an image W H), the coarsest level first; a pixel's index has T's bits, then H's, then
// W's. A wavelet coefficient is signs . pixels / pixels of the patch: 1/sqrt(2) per axis, and the same again
// per level. Made on the device of `like`, so that no device waits for a copy.
at::Tensor Patcher::signs(const at::Tensor& like) const {
  const at::Tensor bit = at::arange(2, like.options());
  const at::Tensor one = 1 - 2 * at::outer(bit, bit);  // [[1, 1], [1, -1]]
  at::Tensor all = one;
  std::vector<int64_t> bits{-1}, order{0};
  const std::vector<int64_t> letters = image_ ? std::vector<int64_t>{1, 0} : std::vector<int64_t>{0, 1, 2};
  const auto axes = static_cast<int64_t>(letters.size());
  for (int64_t i = 1; i < axes * levels_; ++i) all = at::kron(all, one);
  for (const int64_t letter : letters)
    for (int64_t level = 0; level < levels_; ++level) {
      bits.push_back(2);
      order.push_back(1 + axes * level + letter);
    }
  return all.view(bits).permute(order).flatten(1);
}

at::Tensor Patcher::patch(const at::Tensor& video) const {
  const auto B = video.size(0), C = video.size(1), t = video.size(2) / time_, h = video.size(3) / p_,
             w = video.size(4) / p_;
  const auto n = pixels();
  at::Tensor x = video.reshape({B, C, t, time_, h, p_, w, p_})
                     .permute({0, 2, 4, 6, 1, 3, 5, 7})
                     .reshape({B, t, h, w, C, n});
  if (levels_ == 0) return x.flatten(4);
  return at::matmul(x, (signs(x) / static_cast<double>(n)).t()).transpose(4, 5).flatten(4);  // band outermost
}

at::Tensor Patcher::unpatch(const at::Tensor& x) const {
  const auto B = x.size(0), t = x.size(1), h = x.size(2), w = x.size(3), n = pixels(), C = x.size(4) / n;
  at::Tensor y = levels_ > 0 ? at::matmul(x.reshape({B, t, h, w, n, C}).transpose(4, 5), signs(x)) : x;
  y = y.reshape({B, t, h, w, C, time_, p_, p_}).permute({0, 4, 1, 5, 2, 6, 3, 7});
  return y.reshape({B, C, t * time_, h * p_, w * p_});
}

}  // namespace kinora::cosmos
