// Attention of heads in E4M3 on a GPU: softmax(scale q k^T) v by cuDNN, in libkinora_cuda (kinora/abi/cuda.h),
// as a node of the autograd graph. All scales are those of one head of one sample, and known before the
// product that they are for:
//
//   q, k, v         by the given factors, which a precision chooses
//   softmax         at most 1: 448, E4M3's largest number
//   result          Hopper: E4M3 by v's factor, since a mean of values is not larger than them. Blackwell:
//                   bfloat16
//   its gradient    E5M2, its largest magnitude at 57344, the format's largest number
//   scores' one     E5M2. P (dP - sum P dP) scale is at most scale n m / 2, with n and m the largest norms
//                   of a row of the result's gradient and of v; scale n m is at 57344
//
// On Hopper the backward is cuDNN's in bfloat16, of the rounded q, k and v: there its backward in FP8 rounds
// gradients of q, k and v to FP8 as well, by scales that only earlier steps could give (as
// TransformerEngine's delayed scaling does), and a run would not continue from a checkpoint bit for bit.
//
// B samples of G rows, S queries, L keys, H heads, d width of a head.
#pragma once
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "kinora/abi/cuda.h"

namespace kinora::gpu {

// Times these, q, k and v are E4M3 numbers: float32 [B, 1, H, 1].
struct HeadFactors {
  at::Tensor q, k, v;
};

class Fp8Attention {
 public:
  // cuda: null: the process's library, for tensors on a GPU.
  explicit Fp8Attention(const kinora_cuda_api* cuda = nullptr) : given_(cuda) {}

  // [owner-thread, autograd-thread] q [B G, S, H, d], k, v [B G, L, H, d]; times their factors they are numbers
  // of E4M3, but for roundings to bfloat16 -> [B G, S, H, d] in q's dtype. Undefined where cuDNN cannot; the
  // log says why, once for each reason.
  at::Tensor attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const HeadFactors&,
                    double scale);
  // The log's line about an attention that is not in FP8, if it has not said so yet.
  void tell(const std::string& why);

  struct Plans;

 private:
  bool open(const at::Tensor& q);
  const kinora_cuda_api* given_;
  std::shared_ptr<Plans> plans_;  // null: none
  bool tried_ = false;
  std::set<std::vector<int64_t>> refused_;  // sizes
  std::set<std::string> told_;
};

}  // namespace kinora::gpu
