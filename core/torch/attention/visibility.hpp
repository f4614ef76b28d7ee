// A run's frame settings, and the visibility rule: which tokens see which. The rule belongs to the run, not
// to the model or a strategy; it only reads token tables (columns KINORA_TOKEN_*).
#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "kinora/abi/context.h"

namespace kinora::core {

// Latent frames in chunks, of which the first may have a length of its own.
struct Chunks {
  int64_t each = 1, first = 0;  // frames; first = 0: as the others
  // Frames before a chunk.
  int64_t begin(int64_t chunk) const { return chunk < 1 ? 0 : chunk * each + (first > 0 ? first - each : 0); }
  int64_t of(int64_t frame) const { return frame < begin(1) ? 0 : 1 + (frame - begin(1)) / each; }
};

struct Frames {
  int64_t start = 0;  // frames before the first one of this forward (streaming): shifts INDEX, TIME and CHUNK
  std::vector<int64_t> times;  // temporal position of each frame of a stream; empty: start, start + 1, ...
  int64_t streams = 1;  // 2: teacher forcing, the clean frames and then their noisy copies; implies causal
  int64_t chunk = 1;    // frames of a causal chunk
  int64_t first_chunk = 0;    // of the first one; 0: as the others
  bool causal = false;        // a token sees its own and earlier chunks
  int64_t window = 0;         // chunks that a token sees, its own included; 0: all earlier ones
  int64_t sink = 0;           // first chunks that stay visible whatever the window
  std::vector<int64_t> cuts;  // first chunk of each shot but the first, ascending
  // The shot whose first chunk stays visible to a token, in place of the oldest chunk of a window that has passed
  // it: the token's own, or the last that began before its chunk (LongLive: a cut's chunk sees the previous
  // shot's).
  enum class Pin { none, own, before } pin = Pin::none;
  bool before = false;  // the model's own: a token sees itself and tokens of lower INDEX (KINORA_SEES_CAUSAL)
  bool has_chunks() const { return causal || streams == 2; }
  Chunks chunks() const { return {chunk, first_chunk}; }
  // A token of a chunk and shot sees the sink, the chunks from `first` on, and the chunk `pin` (-1: none).
  struct Window {
    int64_t first, pin;
  };
  Window window_of(int64_t chunk, int64_t shot) const;
};

// Latent size of one video.
struct VideoSize {
  int64_t frames, rows, cols;
  bool operator==(const VideoSize&) const = default;
};

// Table int64 [1, tokens + padding, KINORA_TOKEN_COLUMNS] on the CPU, in the one-process order, of consecutive
// videos (a packed row, if there are several): SAMPLE is the video's number, positions and shots restart in each
// video, INDEX and FRAME count on across videos. Rows of padding have INDEX and SAMPLE -1; no token sees them.
at::Tensor token_table(const Frames& rule, const std::vector<VideoSize>& samples, int64_t padding = 0);
inline at::Tensor token_table(const Frames& rule, int64_t frames, int64_t rows, int64_t cols,
                              int64_t padding = 0) {
  return token_table(rule, {{frames, rows, cols}}, padding);
}

// bool [1 or B, S, L]: which of the L keys each of the S queries sees. Tables are [1 or B, tokens, columns]; the
// result is on their device. Two-stream rule (teacher forcing): clean chunks see clean chunks up to their
// own; a noisy chunk sees the clean ones before it and itself.
at::Tensor visible(const Frames& rule, const at::Tensor& q_table, const at::Tensor& k_table, uint32_t over);

// Rows [first, first + count) of a token dimension; or, if first is -1, the rows that `index` lists (int64 [count]).
struct Rows {
  int64_t first = 0, count = 0;
  at::Tensor index;
};
// The rule as groups of queries that see the same keys: attention without masks or wasted products. Groups of
// equal sizes are adjacent and run as one batch.
struct VisibleGroups {
  int64_t groups = 0, queries = 0, keys = 0;  // queries and keys of each group
  Rows q, k;                                  // groups * queries, groups * keys
  bool before = false;  // the queries are the last keys, and see no later ones: query i of a group
                        // sees its first keys - queries + i + 1 keys
};
struct VisiblePlan {
  std::vector<VisibleGroups> batches;
  int64_t blind = 0;  // queries that see nothing (padding): their result is zero
  at::Tensor order;   // int64 [S]: where each query's result is in the batches' joined results and `blind`
                      // zeros; undefined: in order
};
// Plan for one row of tables, [S, columns] and [L, columns], on any device (they are read on the CPU); indices are on
// `device`.
VisiblePlan plan_visible(const Frames& rule, const at::Tensor& q_table, const at::Tensor& k_table,
                         uint32_t over, at::Device device);

}  // namespace kinora::core
