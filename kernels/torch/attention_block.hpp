// One block of an attention whose keys arrive piece by piece (ring attention): its result with the logarithm
// of the sum of its exponentials, the merge of two blocks' results, and the block's part of the gradient.
//
// The softmax over all blocks' keys is the mean of their results, weighted by their sums (Milakov and
// Gimelshein 2018, arXiv 1805.02867); the backward of a block needs only the result and the sum of all blocks
// (Dao et al. 2022, arXiv 2205.14135, algorithm 4). The matrix of all scores never exists at once.
//
// B batch, S queries, L keys, H heads, d width of a head. Results are float64 for float64, else float32.
#pragma once
#include <ATen/core/Tensor.h>

namespace kinora {

struct AttentionBlock {
  at::Tensor out;      // [B, S, H, d] softmax(scale q k^T) v over this block's keys
  at::Tensor log_sum;  // [B, S, H] ln of the sum of exp(scale q k^T)
};
// log_sum of a query that has seen no key; its result is zero. Finite, so that no difference of two is NaN.
constexpr double kSeenNothing = -1e30;

// q [B, S, H, d], k [B, L, H, d], v [B, L, H, d]. mask: bool [1 or B, S, L], true where a query sees a key;
// undefined: everywhere.
AttentionBlock attention_block(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, double scale,
                               const at::Tensor& mask);

// The result for no keys.
AttentionBlock no_attention(const at::Tensor& q, int64_t v_size);
// Merges `more`, the result for further keys, into `all`.
void merge(const AttentionBlock& all, const AttentionBlock& more);

struct AttentionGradient {
  at::Tensor q, k, v;
};
// all: the merged result of all blocks. Returns this block's part of the gradient of q.
AttentionGradient attention_block_backward(const at::Tensor& grad, const at::Tensor& q, const at::Tensor& k,
                                           const at::Tensor& v, const AttentionBlock& all, double scale,
                                           const at::Tensor& mask);

// The same as one type, for attention block by block (kinora/ring_attention.hpp).
struct AttentionKernel {
  using Block = AttentionBlock;
  using Gradient = AttentionGradient;
  static constexpr auto nothing = &no_attention;
  static constexpr auto attend = &attention_block;
  static constexpr auto merge = &kinora::merge;
  static constexpr auto attend_back = &attention_block_backward;
};

namespace reference {
// The same with whole matrices of scores, on any device; in pieces of the queries.
AttentionBlock attention_block(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, double scale,
                               const at::Tensor& mask);
AttentionGradient attention_block_backward(const at::Tensor& grad, const at::Tensor& q, const at::Tensor& k,
                                           const at::Tensor& v, const AttentionBlock& all, double scale,
                                           const at::Tensor& mask);
}  // namespace reference

}  // namespace kinora
