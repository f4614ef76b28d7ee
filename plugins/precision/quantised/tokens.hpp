// Which tokens of a sequence the rows of a tensor are, and how they fall into tiles of tokens that share a
// scale. Tiles are cut in the one-process order, so that every layout has the same.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace kinora::quantised {

// Rows [row, row + count) of a rank's tokens are the tokens index, index + 1 ... of the sequence.
struct Run {
  int64_t row, index, count;
};

// B samples have the same runs.
struct Tokens {
  int64_t rows = 0;            // of the tensor, padding included
  std::vector<Run> runs;       // ascending; without padding, which has index -1
  std::vector<Run> stretches;  // maximal runs of successive indices; `row` is a place in `order`
  std::vector<int64_t> order;  // the row of each token, ascending by index
};

Tokens tokens_of(const std::vector<int64_t>& index);

// The tokens of one sample on a rank, which may have none of them.
struct SampleTokens {
  Tokens tokens;              // by their rows among these, and their indices in the sample
  std::vector<int64_t> rows;  // of the rank's tokens
  int64_t length = 0;         // tokens of the sample
};
// index, sample: columns of a token table. first: INDEX of the first token of each sample of a packed row, then of all.
std::vector<SampleTokens> samples_of(const std::vector<int64_t>& index, const std::vector<int64_t>& sample,
                                     const std::vector<int64_t>& first);

// Empty if every tile of `tile` tokens that these contain a part of is whole, or the last of the sequence:
// else what is cut. length: tokens of the sequence; below 0: unknown, no tile may be the last.
std::string cut_tile(const Tokens&, int64_t tile, int64_t length);

// The size that leaves the tiles whole where `ranks` times `tensor_ranks` share a sequence by places of frames of
// `frame` tokens (0: they differ), or by time: the largest smaller divisor of `ranks`, else a size of frames.
std::string size_without_cuts(int64_t tile, int64_t frame, int64_t ranks, int64_t tensor_ranks);

}  // namespace kinora::quantised
