// Converts patches of p x p x p pixels (of an image: p x p) to channels and back: a Haar wavelet of log2(p) levels, or
// a plain rearrangement.
//
// The Haar transform of a patch is an orthogonal matrix (up to its scale), so both directions are one matrix
// product.
#pragma once
#include <string>

#include <ATen/ATen.h>

namespace kinora::cosmos {

class Patcher {
 public:
  // size: a power of two. type: "haar" or "rearrange". image: a patch is one frame long.
  Patcher(int64_t size, const std::string& type, bool image = false);

  int64_t frames() const { return time_; }
  // Number of channels of a patch of an RGB video.
  int64_t channels() const { return 3 * pixels(); }
  // video [B, C, frames * t, p * h, p * w] -> [B, t, h, w, C * pixels]
  at::Tensor patch(const at::Tensor& video) const;
  // [B, t, h, w, C * pixels] -> [B, C, frames * t, p * h, p * w]
  at::Tensor unpatch(const at::Tensor& x) const;

 private:
  at::Tensor signs(const at::Tensor& like) const;  // [bands, pixels], +1 and -1
  int64_t pixels() const { return time_ * p_ * p_; }

  int64_t p_, time_;
  int64_t levels_;  // levels of the wavelet; 0: rearrange
  bool image_;
};

}  // namespace kinora::cosmos
