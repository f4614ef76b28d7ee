// The functions for attention in FP8 of a kinora_cuda_api, on tensors in main memory: what cuDNN's graphs
// (core/cuda/attention_graph.hpp) compute, with every rounding, in float64. For tests without a GPU.
#pragma once
#include <ATen/ATen.h>

#include "kinora/abi/cuda.h"
#include "kinora/aten.hpp"
#include "kinora/error.hpp"

namespace kinora::gpu::on_host {

inline int64_t asked = 0;  // forwards
constexpr int64_t kMostWidth = 128;

// One head of one sample. x [G, rows, d] float64.
struct Head {
  int64_t sample, head, G;
  at::Tensor numbers;

  at::Tensor of(kinora_tensor x) const {
    return borrow<at::Tensor>(x).narrow(0, sample * G, G).select(2, head).to(at::kDouble);
  }
  void put(const at::Tensor& to, const at::Tensor& x) const {
    to.narrow(0, sample * G, G).select(2, head).copy_(x.to(at::kFloat));
  }
  double operator[](uint32_t which) const { return numbers[which][0].item<double>(); }
};
template <class F>
void each_head(const kinora_cuda_heads& of, F f) {
  const auto q = borrow<at::Tensor>(of.q), numbers = borrow<at::Tensor>(of.numbers);
  const int64_t H = q.size(2);
  for (int64_t i = 0; i < numbers.size(0); ++i) f(Head{i / H, i % H, of.groups, numbers[i]}, i);
}
inline at::Tensor rounded(const at::Tensor& x, at::ScalarType type) {
  return x.to(at::kFloat).to(type).to(at::kDouble);
}
inline at::Tensor turned(const at::Tensor& x) { return x.transpose(1, 2); }

template <bool blackwell>
int32_t forward(kinora_cuda_attention*, const kinora_cuda_heads* of, kinora_tensor* to) {
  ++asked;
  return guard([&] {
    const auto q = borrow<at::Tensor>(of->q);
    if (q.size(3) > kMostWidth) throw Error(KINORA_ERROR_UNSUPPORTED, "heads are too wide");
    const auto out = at::empty(q.sizes(), q.options().dtype(blackwell ? at::kBFloat16 : at::kFloat8_e4m3fn));
    const auto sums =
        at::empty({borrow<at::Tensor>(of->numbers).size(0), of->groups * q.size(1)}, at::kFloat);
    each_head(*of, [&](const Head& at, int64_t i) {
      const auto s =
          at::matmul(at.of(of->q), turned(at.of(of->k))) * (of->scale * at[KINORA_FP8_Q] * at[KINORA_FP8_K]);
      const auto p = at::exp(s - s.amax(2, true));
      const auto o = at::matmul(rounded(p * at[KINORA_FP8_TO_P], at::kFloat8_e4m3fn), at.of(of->v)) *
                     (at[KINORA_FP8_P] * at[KINORA_FP8_V]) / p.sum(2, true);
      at.put(out, o * at[KINORA_FP8_TO_OUT]);
      sums[i].copy_(at::logsumexp(s, 2).flatten());
    });
    to[0] = give(out), to[1] = give(sums);
  });
}

template <bool blackwell>
int32_t backward(kinora_cuda_attention*, const kinora_cuda_heads* of, kinora_tensor grad, kinora_tensor out,
                 kinora_tensor sums, kinora_tensor* to) {
  return guard([&] {
    const auto empty = [](kinora_tensor x) {
      const auto like = borrow<at::Tensor>(x);
      return at::empty(like.sizes(), like.options().dtype(at::kBFloat16));
    };
    const at::Tensor gq = empty(of->q), gk = empty(of->k), gv = empty(of->v);
    each_head(*of, [&](const Head& at, int64_t i) {
      const auto n = [&](uint32_t which) { return blackwell ? at[which] : 1.0; };
      const auto low = [&](const at::Tensor& x, at::ScalarType type) {
        return blackwell ? rounded(x, type) : x;
      };
      const auto q = at.of(of->q), k = at.of(of->k), v = at.of(of->v), g = at.of(grad);
      const auto s = at::matmul(q, turned(k)) * (of->scale * n(KINORA_FP8_Q) * n(KINORA_FP8_K)),
                 p = at::exp(s - borrow<at::Tensor>(sums)[i].view({at.G, -1, 1})),
                 delta = (g * at.of(out)).sum(2, true) * (n(KINORA_FP8_GRAD) * n(KINORA_FP8_ONE)),
                 dp = at::matmul(g, turned(v)) * (n(KINORA_FP8_GRAD) * n(KINORA_FP8_V)),
                 ds = low((dp - delta) * p * of->scale * n(KINORA_FP8_TO_S), at::kFloat8_e5m2);
      at.put(gq, at::matmul(ds, k) * (n(KINORA_FP8_S) * n(KINORA_FP8_K) * n(KINORA_FP8_ONE)));
      at.put(gk, at::matmul(turned(ds), q) * (n(KINORA_FP8_S) * n(KINORA_FP8_Q) * n(KINORA_FP8_ONE)));
      at.put(gv, at::matmul(turned(low(p * n(KINORA_FP8_TO_P), at::kFloat8_e4m3fn)), g) *
                     (n(KINORA_FP8_P) * n(KINORA_FP8_GRAD) * n(KINORA_FP8_ONE)));
    });
    to[0] = give(gq), to[1] = give(gk), to[2] = give(gv);
  });
}

template <bool blackwell>
const kinora_cuda_api& library() {
  static const kinora_cuda_api table = [] {
    kinora_cuda_api out{};
    out.struct_size = sizeof out;
    out.attention_open = [](int32_t, uint32_t* fp8_backward, kinora_cuda_attention** opened) -> int32_t {
      *fp8_backward = blackwell, *opened = nullptr;
      return KINORA_OK;
    };
    out.attention_forward = forward<blackwell>;
    out.attention_backward = backward<blackwell>;
    out.attention_close = [](kinora_cuda_attention*) {};
    return out;
  }();
  return table;
}

}  // namespace kinora::gpu::on_host
