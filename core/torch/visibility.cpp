#include "core/torch/visibility.hpp"

#include <ATen/ATen.h>

#include "core/torch/torch_guard.hpp"

namespace kinora::core {

at::Tensor token_table(const Frames& rule, int64_t frames, int64_t rows, int64_t cols, int64_t padding) {
  const int64_t each = frames / rule.streams, area = rows * cols, n = frames * area;
  if (frames % rule.streams)
    raise(KINORA_INVALID, "{} frames are not {} streams of equal length", frames, rule.streams);
  if (!rule.times.empty() && static_cast<int64_t>(rule.times.size()) != each)
    raise(KINORA_INVALID, "temporal positions of {} frames are given, the video has {}", rule.times.size(),
          each);
  auto table = at::zeros({1, n + padding, KINORA_TOKEN_COLUMNS}, at::kLong);
  auto* t = table.data_ptr<int64_t>();
  for (int64_t i = 0; i < n; ++i, t += KINORA_TOKEN_COLUMNS) {
    const int64_t frame = i / area, in_stream = frame % each;
    t[KINORA_TOKEN_INDEX] = i + rule.start * area;
    t[KINORA_TOKEN_FRAME] = frame;
    t[KINORA_TOKEN_TIME] =
        rule.times.empty() ? rule.start + in_stream : rule.times[static_cast<size_t>(in_stream)];
    t[KINORA_TOKEN_ROW] = i % area / cols;
    t[KINORA_TOKEN_COL] = i % cols;
    t[KINORA_TOKEN_STREAM] = rule.streams == 2 ? frame / each : 0;
    t[KINORA_TOKEN_CHUNK] = (rule.start + in_stream) / std::max<int64_t>(rule.chunk, 1);
  }
  for (int64_t i = 0; i < padding; ++i, t += KINORA_TOKEN_COLUMNS)
    t[KINORA_TOKEN_INDEX] = t[KINORA_TOKEN_SAMPLE] = -1;
  return table;
}

at::Tensor visible(const Frames& rule, const at::Tensor& q_table, const at::Tensor& k_table, uint32_t over) {
  const auto q = [&](int64_t column) { return q_table.select(2, column).unsqueeze(2); };
  const auto k = [&](int64_t column) { return k_table.select(2, column).unsqueeze(1); };
  const auto same = [&](int64_t column) { return q(column) == k(column); };
  auto sees = same(KINORA_TOKEN_SAMPLE) & (k(KINORA_TOKEN_INDEX) >= 0);
  if (over == KINORA_OVER_SPACE) sees = sees & same(KINORA_TOKEN_FRAME);
  if (over == KINORA_OVER_TIME) sees = sees & same(KINORA_TOKEN_ROW) & same(KINORA_TOKEN_COL);
  if (rule.before) sees = sees & (k(KINORA_TOKEN_INDEX) <= q(KINORA_TOKEN_INDEX));
  if (!rule.causal && rule.streams == 1) return sees;
  const auto qc = q(KINORA_TOKEN_CHUNK), kc = k(KINORA_TOKEN_CHUNK), qs = q(KINORA_TOKEN_STREAM),
             ks = k(KINORA_TOKEN_STREAM);
  if (rule.window > 0) sees = sees & ((kc > qc - rule.window) | (kc < rule.sink));
  if (rule.streams == 1) return sees & (kc <= qc);
  return sees & (((qs == 0) & (ks == 0) & (kc <= qc)) |
                 ((qs == 1) & (((ks == 0) & (kc < qc)) | ((ks == 1) & (kc == qc)))));
}

}  // namespace kinora::core
