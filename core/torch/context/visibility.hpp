// What a run says about its frames, and which tokens see which: the visibility rule. It belongs to the run,
// not to the model or a strategy; it reads token tables (columns KINORA_TOKEN_*) only.
#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "kinora/abi/context.h"

namespace kinora::core {

struct Frames {
  int64_t start = 0;  // frames before the first one of this forward (streaming): shifts INDEX, TIME and CHUNK
  std::vector<int64_t>
      times;  // temporal position of each frame of a stream (shot offsets); empty: start, start + 1, ...
  int64_t streams = 1;  // 2: teacher forcing, the clean frames and then their noisy copies; implies causal
  int64_t chunk = 1;    // frames of a causal chunk
  bool causal = false;  // a token sees its own and earlier chunks
  int64_t window = 0;   // chunks that a token sees, its own included; 0: all earlier ones
  int64_t sink = 0;     // first chunks that stay visible whatever the window
  bool before = false;  // the model's own: a token sees itself and tokens of lower INDEX (KINORA_SEES_BEFORE)
};

// Of one video.
struct VideoSize {
  int64_t frames, rows, cols;
  bool operator==(const VideoSize&) const = default;
};

// Table int64 [1, tokens + padding, 8] on the CPU, in the one-process order, of videos one after the other (a
// packed row, if there are several): SAMPLE says which, positions begin anew in each, INDEX and FRAME run on.
// Rows of padding have INDEX and SAMPLE -1; nothing sees them.
at::Tensor token_table(const Frames& rule, const std::vector<VideoSize>& samples, int64_t padding = 0);
at::Tensor token_table(const Frames& rule, int64_t frames, int64_t rows, int64_t cols, int64_t padding = 0);

// bool [1 or B, S, L]: which of the L keys each of the S queries sees, tables [1 or B, tokens, 8], on their
// device. The two-stream rule (teacher forcing): clean chunks see clean chunks up to their own, a noisy chunk
// sees the clean ones before it and itself.
at::Tensor visible(const Frames& rule, const at::Tensor& q_table, const at::Tensor& k_table, uint32_t over);

// Rows [first, first + count) of a token dimension; or, where first is -1, those that `index` lists (int64
// [count]).
struct Rows {
  int64_t first = 0, count = 0;
  at::Tensor index;
};
// The rule as groups of queries that see the same keys: attention without masks or wasted products. Groups of
// equal sizes stand together and run as one batch.
struct VisibleGroups {
  int64_t groups = 0, queries = 0, keys = 0;  // queries and keys of each group
  Rows q, k;                                  // groups * queries, groups * keys
  bool before = false;  // the queries are the last keys, and see none behind themselves: query i of a group
                        // sees its first keys - queries + i + 1 keys
};
struct VisiblePlan {
  std::vector<VisibleGroups> batches;
  int64_t blind = 0;  // queries that see nothing (padding): their result is zero
  at::Tensor order;   // int64 [S]: where each query's result is in the batches' joined results and `blind`
                      // zeros; undefined: in order
};
// Of one row of tables, [S, 8] and [L, 8], on any device (they are read on the CPU); indices on `device`.
VisiblePlan plan_visible(const Frames& rule, const at::Tensor& q_table, const at::Tensor& k_table,
                         uint32_t over, at::Device device);

}  // namespace kinora::core
