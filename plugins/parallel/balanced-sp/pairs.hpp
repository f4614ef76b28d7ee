// Splits a teacher-forcing sequence, its clean tokens followed by a noisy copy of each, over the ranks.
#pragma once
#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

namespace kinora {

// A split of the tokens over P ranks.
struct Owners {
  int64_t padding = 0;  // rows after the one-process order
  at::Tensor order;     // int64 [tokens + padding]: the token at each position, rank after rank
};

// The clean and the noisy copy of a token are a pair; pairs are ordered by time. Rank r owns the
// r-th run of n pairs, its clean tokens before its noisy ones. So if the frames divide by the ranks, rank
// r owns both copies of frames [r F/P, (r + 1) F/P); otherwise frames are split, but never pairs. Pairs of
// padding follow the last. multiple: divides the number of tokens of a rank. table: int64 [1 or B, tokens,
// 8]; a table without copies, or with other than two of each token, is split into equal runs of tokens.
Owners own_pairs(const at::Tensor& table, int64_t P, int64_t multiple);
// Equal runs of the sequence in its order: the first ranks own only clean tokens, the last only noisy ones.
Owners own_runs(const at::Tensor& table, int64_t P, int64_t multiple);

// The work of a rank.
struct Load {
  int64_t tokens = 0, loss_tokens = 0;  // without padding; the loss is on noisy tokens
  int64_t frames = 0;                   // frames of the video that this rank encodes
};
// table: of all ranks' tokens, in rank order.
std::vector<Load> loads_of(const at::Tensor& table, int64_t P);

}  // namespace kinora
