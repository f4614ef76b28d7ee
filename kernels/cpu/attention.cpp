#include "kernels/cpu/attention.hpp"

#include "kernels/cpu/attention_table.hpp"

namespace kinora {
namespace {

const attention_detail::AttentionKernels* attention_kernels() {
  static const auto* const chosen = [] {
    const auto* wide = attention_detail::avx512_attention();
    return wide ? wide : attention_detail::avx2_attention();
  }();
  return chosen;
}

}  // namespace

bool has_attention() { return attention_kernels() != nullptr; }

void attention_forward(const AttentionShape& n, const Heads& q, const Heads& k, const Heads& v, HeadIndex at,
                       int64_t first, int64_t last, const HeadsOut& out, float* log_sum) {
  attention_kernels()->forward(n, q, k, v, at, first, last, out, log_sum);
}

void attention_backward(const AttentionShape& n, const Heads& q, const Heads& k, const Heads& v,
                        const Heads& out, const float* log_sum, const Heads& grad, HeadIndex at,
                        const HeadsOut& grad_q, const HeadsOut& grad_k, const HeadsOut& grad_v) {
  attention_kernels()->backward(n, q, k, v, out, log_sum, grad, at, grad_q, grad_k, grad_v);
}

}  // namespace kinora
