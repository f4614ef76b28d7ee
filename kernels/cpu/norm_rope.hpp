// RMSNorm of each head and its rotary position in one pass, float32; either of them may be omitted.
//
// y = R(x / sqrt(mean(x^2) + epsilon) * weight) (Zhang and Sennrich 2019, arXiv 1910.07467; Su et al. 2021,
// arXiv 2104.09864). Heads are read in place from a fused projection: number c of head h of token t is
// data[t * row + h * head + c].
#pragma once
#include <cstdint>

namespace kinora {

constexpr int64_t kLargestHead = 1024;  // a head's numbers between two loops are on the stack

// Tokens of one sample, their heads and a head's width, at most kLargestHead.
struct HeadShape {
  int64_t tokens = 0, heads = 0, size = 0;
};
template <class T>
struct TokenHeads {
  T* data = nullptr;
  int64_t row = 0, head = 0;
};
// Cosines and sines [size / 2] of token t are at cos + t * row, for all its heads. Rotated pairs are (i, i
// + size / 2), or neighbours (2i, 2i + 1). cos null: no rotation.
struct Turn {
  const float *cos = nullptr, *sin = nullptr;
  int64_t row = 0;
  bool neighbours = false;
};

// weight null: no norm. rms [tokens, heads]: 1 / root of the mean square, needed by the backward.
void norm_rope_forward(const HeadShape&, double epsilon, const TokenHeads<const float>& x,
                       const float* weight, const Turn&, const TokenHeads<float>& y, float* rms);
// grad_weight [size]: the sum over the call's tokens and heads; null if weight is.
void norm_rope_backward(const HeadShape&, const TokenHeads<const float>& grad,
                        const TokenHeads<const float>& x, const float* weight, const Turn&, const float* rms,
                        const TokenHeads<float>& grad_x, float* grad_weight);

namespace reference {
struct Turn {
  const double *cos = nullptr, *sin = nullptr;  // [tokens, size / 2]
  bool neighbours = false;
};
// x, y [tokens, heads, size] in float64.
void norm_rope_forward(const HeadShape&, double epsilon, const double* x, const double* weight, const Turn&,
                       double* y);
void norm_rope_backward(const HeadShape&, double epsilon, const double* grad, const double* x,
                        const double* weight, const Turn&, double* grad_x, double* grad_weight);
}  // namespace reference

}  // namespace kinora
