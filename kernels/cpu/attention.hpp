// softmax(scale q k^T) v of float32 heads, and its gradient, without a matrix of scores.
//
// Idea: scores are computed in blocks of 96 queries by 192 keys that stay in the second-level cache (running
// softmax: Milakov and Gimelshein 2018, arXiv 1805.02867; blocks, and a backward that recomputes the
// probabilities from the saved logarithms of the sums: Dao et al. 2022, arXiv 2205.14135, algorithms 1 and
// 4). All seven products run through one register tile of 6 rows; q is packed with scale and log2(e)
// multiplied in, so that the exponential is one polynomial and no multiplication.
//
// Invariant: results do not depend on how queries are split into calls of attention_forward, and equal
// kinora::reference, which holds whole rows of float64, within float32's rounding.
//
// B batch, H heads, S queries, L keys, d width of a head.
#pragma once
#include <cstddef>
#include <cstdint>

namespace kinora {

// Number c of head h of token s of sample b is data[b * batch + s * row + h * head + c].
template <class T>
struct HeadsOf {
  T* data = nullptr;
  int64_t batch = 0, row = 0, head = 0;
  T* at(int64_t b, int64_t s, int64_t h) const { return data + b * batch + s * row + h * head; }
};
using Heads = HeadsOf<const float>;
using HeadsOut = HeadsOf<float>;

struct AttentionShape {
  int64_t queries = 0, keys = 0, size = 0;  // S, L >= 1, d
  double scale = 1;
};
// One head of one sample.
struct HeadIndex {
  int64_t b = 0, h = 0;
};

// Whether this processor has the instructions that the kernels need (AVX2 and FMA, or AVX-512); checked at
// run time.
bool has_attention();

// Computes out and log_sum [S] for the queries [first, last). log_sum: base 2 logarithm of the sum of
// 2^(scores log2(e)), needed by the backward.
void attention_forward(const AttentionShape&, const Heads& q, const Heads& k, const Heads& v, HeadIndex,
                       int64_t first, int64_t last, const HeadsOut& out, float* log_sum);
// Gradients of q, k and v of one head, overwritten.
void attention_backward(const AttentionShape&, const Heads& q, const Heads& k, const Heads& v,
                        const Heads& out, const float* log_sum, const Heads& grad, HeadIndex,
                        const HeadsOut& grad_q, const HeadsOut& grad_k, const HeadsOut& grad_v);

namespace reference {
// q, out, grad, grad_q [S, d], k, v and their gradients [L, d], contiguous, in float64.
void attention_forward(const AttentionShape&, const double* q, const double* k, const double* v, double* out);
void attention_backward(const AttentionShape&, const double* q, const double* k, const double* v,
                        const double* grad, double* grad_q, double* grad_k, double* grad_v);
}  // namespace reference

}  // namespace kinora
