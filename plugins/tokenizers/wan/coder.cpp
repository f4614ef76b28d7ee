#include "plugins/tokenizers/wan/coder.hpp"

#include <algorithm>

#include <c10/core/GradMode.h>

#include "kinora/error.hpp"

namespace kinora::wan {
namespace {

using at::Tensor;

// [B, C, T, p h, p w] -> [B, T, h, w, C p p]; a patch's columns vary slower than its rows.
Tensor patches(const Tensor& video, int64_t p) {
  const auto B = video.size(0), C = video.size(1), T = video.size(2), h = video.size(3) / p,
             w = video.size(4) / p;
  return video.reshape({B, C, T, h, p, w, p})
      .permute({0, 2, 3, 5, 1, 6, 4})
      .reshape({B, T, h, w, C * p * p})
      .contiguous();
}
Tensor pixels(const Tensor& x, int64_t p) {
  const auto B = x.size(0), T = x.size(1), h = x.size(2), w = x.size(3), C = x.size(4) / (p * p);
  return x.view({B, T, h, w, C, p, p}).permute({0, 4, 1, 2, 6, 3, 5}).reshape({B, C, T, h * p, w * p});
}

// Joins parts of one tensor along its third dimension, in order. Without a graph they are written in place,
// since a concatenation would need twice the memory.
class Joined {
 public:
  explicit Joined(int64_t frames) : frames_(frames) {}
  void add(Tensor part) {
    if (c10::GradMode::is_enabled() || part.size(2) == frames_) {
      parts_.push_back(std::move(part));
      return;
    }
    if (!all_.defined()) {
      auto shape = part.sizes().vec();
      shape[2] = frames_;
      all_ = at::empty(shape, part.options().memory_format(at::MemoryFormat::Contiguous));
    }
    all_.narrow(2, at_, part.size(2)).copy_(part);
    at_ += part.size(2);
  }
  Tensor get() const { return all_.defined() ? all_ : at::cat(parts_, 2); }

 private:
  int64_t frames_, at_ = 0;
  Tensor all_;
  std::vector<Tensor> parts_;
};

}  // namespace

Tensor blended(const Tensor& a, const Tensor& b, int64_t dim, int64_t extent, int64_t unit) {
  const int64_t n = std::min({a.size(dim) / unit, b.size(dim) / unit, extent}), size = n * unit;
  if (n == 0) return b;
  std::vector<int64_t> shape(static_cast<size_t>(b.dim()), 1);
  shape[static_cast<size_t>(dim)] = size;
  const Tensor weight = (at::arange(n, b.options()) / n).repeat_interleave(unit).view(shape);
  const Tensor mixed =
      a.narrow(dim, a.size(dim) - size, size) * (1 - weight) + b.narrow(dim, 0, size) * weight;
  return at::cat({mixed, b.narrow(dim, size, b.size(dim) - size)}, dim);
}

// Tiles of `in` positions, one every `step`; of their results the first `out` are used, and `fade` units are
// blended into the previous tile. As in diffusers, the encoder's tiles are counted in patches and the
// decoder's in pixels.
struct Coder::Axis {
  int64_t in = 0, step = 0, out = 0, fade = 0, unit = 1;
  std::vector<int64_t> starts(int64_t size) const {
    std::vector<int64_t> s{0};
    while (step && s.back() + step < size) s.push_back(s.back() + step);
    return s;
  }
  Tensor cut(const Tensor& x, int64_t dim, int64_t start) const {
    const auto left = x.size(dim) - start;
    return x.narrow(dim, start, step ? std::min(in, left) : left);
  }
  Tensor crop(const Tensor& y, int64_t dim) const {
    return step && out < y.size(dim) ? y.narrow(dim, 0, out) : y;
  }
};

Coder::Axis Coder::axis(int64_t dim, bool tiled) const {
  if (!tiled) return {};
  const Config& c = of_.config;
  const auto tile = dim == 3 ? c.tile_height : c.tile_width,
             stride = dim == 3 ? c.tile_stride_height : c.tile_stride_width, p = c.patch_size,
             space = c.space();
  if (decoding_) return {tile / space, stride / space, stride, (tile - stride) / p, p};
  return {tile * p, stride * p, stride * p / space, (tile - stride) * p / space, 1};
}

void Coder::check(const Tensor& x) const {
  const Config& c = of_.config;
  const auto area = c.patch_size * c.patch_size, channels = decoding_ ? c.z_dim : c.in_channels / area;
  if (x.dim() != 5 || x.size(1) != channels || !x.is_floating_point())
    refuse(std::string(decoding_ ? "a latent" : "a video") + " must be a floating-point tensor [B, " +
           std::to_string(channels) + ", T, H, W], found " + c10::str(x.scalar_type(), x.sizes()));
  const auto T = x.size(2), H = x.size(3), W = x.size(4);
  const std::vector<int64_t> shape{x.size(0), H, W};
  if (!shape_.empty() && shape != shape_)
    refuse("a stream's piece is [batch, rows, columns] = " + c10::str(at::IntArrayRef(shape)) +
           ", the first was " + c10::str(at::IntArrayRef(shape_)) + "; open a stream for each clip");
  if (x.numel() == 0) refuse("an empty piece " + c10::str(x.sizes()) + "; give at least one frame");
  if (decoding_) return;
  if (H % c.space() || W % c.space())
    refuse("a video of " + std::to_string(W) + " x " + std::to_string(H) +
           " pixels; width and height must be multiples of " + std::to_string(c.space()));
  if ((T - (first_ ? 1 : 0)) % c.time())
    refuse(std::to_string(T) + " frames; " + (first_ ? "1 + n * " : "n * ") + std::to_string(c.time()) +
           " are needed" + (first_ ? "" : " in a stream's later pieces"));
}

Tensor Coder::latent_frame(const Ctx& ctx, History& h, const Tensor& piece) const {
  h.next = 0;
  const Pass run{ctx, &h};
  const Config& c = of_.config;
  Tensor y = decoding_ ? pixels(of_.decoder(run, patches(piece, 1)), c.patch_size)
                       : of_.encoder(run, patches(piece, c.patch_size)).permute({0, 4, 1, 2, 3}).contiguous();
  h.first = false;
  return y;
}

Tensor Coder::tile(const Run& call, const Ctx& ctx, History& h, const Tensor& x) const {
  const int64_t time = of_.config.time(), T = x.size(2), single = h.first ? 1 : 0;
  Joined out(decoding_ ? single + (T - single) * time : single + (T - single) / time);
  for (int64_t at = 0; at < T;) {
    call.check_cancelled();
    const int64_t n = decoding_ || h.first ? 1 : time;
    out.add(latent_frame(ctx, h, x.narrow(2, at, n)));
    at += n;
  }
  return out.get();
}

Tensor Coder::push(const Run& call, const Ctx& ctx, const Tensor& x, bool last) {
  check(x);
  const Config& c = of_.config;
  const auto unit = decoding_ ? c.space() : 1;
  const bool tiled = c.tiles_space() && (x.size(3) > c.tile_height / unit || x.size(4) > c.tile_width / unit);
  const Axis rows = axis(3, tiled), columns = axis(4, tiled);
  std::vector<History> kept;
  std::vector<Tensor> above, bands;
  for (const auto top : rows.starts(x.size(3))) {
    std::vector<Tensor> row, cropped;
    for (const auto left : columns.starts(x.size(4))) {
      History h = first_ ? History() : histories_[kept.size()];
      Tensor y = tile(call, ctx, h, columns.cut(rows.cut(x, 3, top), 4, left));
      kept.push_back(last ? History() : std::move(h));
      if (!above.empty()) y = blended(above[row.size()], y, 3, rows.fade, rows.unit);
      if (!row.empty()) y = blended(row.back(), y, 4, columns.fade, columns.unit);
      row.push_back(y);
      cropped.push_back(columns.crop(rows.crop(y, 3), 4));
    }
    bands.push_back(cropped.size() == 1 ? cropped[0] : at::cat(cropped, 4));
    above = std::move(row);
  }
  Tensor out = bands.size() == 1 ? bands[0] : at::cat(bands, 3);
  for (auto& h : kept)  // later pieces send no gradient to earlier ones
    for (auto& slot : h.slots) slot = slot.detach();
  histories_ = std::move(kept);
  shape_ = {x.size(0), x.size(3), x.size(4)};
  first_ = false;
  return out;
}

}  // namespace kinora::wan
