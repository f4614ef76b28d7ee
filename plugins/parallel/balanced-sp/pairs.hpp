// Who owns what of a teacher-forcing sequence: its clean tokens, and behind them a noisy copy of each.
#pragma once
#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

namespace kinora {

// A split of the tokens over P ranks.
struct Owners {
  int64_t padding = 0;  // rows behind the one-process order
  at::Tensor order;     // int64 [tokens + padding]: the token at each place, rank after rank
};

// The clean and the noisy copy of a token are a pair, and pairs follow each other in time. Rank r owns the
// r-th run of n pairs, its clean tokens before its noisy ones; so where the frames divide by the ranks, rank
// r owns both copies of frames [r F/P, (r + 1) F/P), and else frames are cut, never pairs. Pairs of padding
// follow the last. multiple: of the tokens that a rank holds. table: int64 [1 or B, tokens, 8]; one without
// copies, or with other than two of each token, is cut into equal runs of tokens.
Owners own_pairs(const at::Tensor& table, int64_t P, int64_t multiple);
// Equal runs of the sequence as it is: the first ranks own clean tokens only, the last noisy ones.
Owners own_runs(const at::Tensor& table, int64_t P, int64_t multiple);

// What a rank has to do.
struct Load {
  int64_t tokens = 0, loss_tokens = 0;  // without padding; loss is on noisy tokens
  int64_t frames = 0;                   // of the video, to be encoded here
};
// table: of all ranks' tokens, in rank order.
std::vector<Load> loads_of(const at::Tensor& table, int64_t P);

}  // namespace kinora
