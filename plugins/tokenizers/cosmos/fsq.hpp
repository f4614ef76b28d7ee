// Finite scalar quantisation (Mentzer et al. 2023, arXiv 2309.15505, section 3.1 and appendix A.1): each
// number of a vector is squashed and rounded to one of L_i values; the vector's code counts them in mixed
// radix, the first number fastest.
#pragma once
#include <vector>

#include <ATen/ATen.h>

namespace kinora::cosmos {

class Fsq {
 public:
  // Throws kinora::Error unless every level is at least 2 and the codes fit into int32.
  explicit Fsq(std::vector<int64_t> levels);

  int64_t dim() const { return static_cast<int64_t>(levels_.size()); }
  int64_t size() const { return size_; }
  // z [..., dim] -> code vectors of the same shape in [-1, 1]; rounding passes the gradient through.
  at::Tensor vectors(const at::Tensor& z) const;
  // Code vectors [..., dim] -> int32 codes [...].
  at::Tensor codes(const at::Tensor& vectors) const;
  // Integer codes [...] in [0, size) -> code vectors [..., dim].
  at::Tensor vectors_of(const at::Tensor& codes, at::ScalarType dtype) const;

 private:
  std::vector<int64_t> levels_;
  int64_t size_ = 1;
};

}  // namespace kinora::cosmos
