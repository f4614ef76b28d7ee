// RMSNorm of heads and their rotation as a node of the autograd graph: kernels/cpu/norm_rope.hpp for float32
// on the processor, gpu.hpp for float32 and bfloat16 on a GPU, ATen's operations for other inputs. The
// kernels have one derivative.
//
// B batch, S tokens, G groups of heads, d head size.
#pragma once
#include <ATen/core/Tensor.h>

namespace kinora {

// Cosines and sines [1 or B, S, 1, d / 2], with as many ones as x has dimensions of heads; undefined: no
// rotation. The pairs are (i, i + d / 2), or neighbours (2i, 2i + 1).
struct Rotation {
  at::Tensor cos, sin;
  bool neighbours = false;
};

// RMSNorm over the last dimension (weight [d]; undefined: none), then the rotation. x [B, S, heads, d] or [B,
// S, G, heads, d]; in x's dtype.
at::Tensor norm_rope(const at::Tensor& x, const at::Tensor& weight, const Rotation& rotation, double epsilon);

// The parts of a fused projection x [B, S, G, n, d]: of each group its query heads, its key and its value. q
// and k as from norm_rope, v as a view of x. weight_q undefined: there are no queries, n is 2.
struct QueryKeyValue {
  at::Tensor q, k, v;
};
QueryKeyValue norm_rope_qkv(const at::Tensor& x, const at::Tensor& weight_q, const at::Tensor& weight_k,
                            const Rotation& rotation, double epsilon);

}  // namespace kinora
