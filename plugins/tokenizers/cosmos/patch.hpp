// Patches of p x p x p pixels as channels, and back: a 3D Haar wavelet of log2(p) levels, or a plain
// rearrangement.
//
// The Haar transform of a patch is one orthogonal matrix (up to its scale), so both ways are one matrix
// product.
#pragma once
#include <string>

#include <ATen/ATen.h>

namespace kinora::cosmos {

class Patcher {
 public:
  // size: a power of two. type: "haar" or "rearrange".
  Patcher(int64_t size, const std::string& type);

  // video [B, C, p * t, p * h, p * w] -> [B, t, h, w, C * p^3]
  at::Tensor patch(const at::Tensor& video) const;
  // [B, t, h, w, C * p^3] -> [B, C, p * t, p * h, p * w]
  at::Tensor unpatch(const at::Tensor& x) const;

 private:
  at::Tensor signs(const at::Tensor& like) const;  // [bands, pixels], +1 and -1

  int64_t p_;
  int64_t levels_;  // of the wavelet; 0: rearrange
};

}  // namespace kinora::cosmos
