#include "core/torch/context/visibility.hpp"

#include <ATen/ATen.h>

#include "core/torch/tensors/torch_guard.hpp"

namespace kinora::core {

namespace {

// Fills one video's rows from `to` on; `first` has the initial INDEX, FRAME and SAMPLE.
struct First {
  int64_t index, frame, sample;
};
void write_rows(int64_t* to, const Frames& rule, const VideoSize& v, const First& first) {
  const int64_t each = v.frames / rule.streams, area = v.rows * v.cols;
  if (v.frames % rule.streams)
    raise(KINORA_INVALID, "{} frames are not {} streams of equal length", v.frames, rule.streams);
  if (!rule.times.empty() && static_cast<int64_t>(rule.times.size()) != each)
    raise(KINORA_INVALID, "temporal positions of {} frames are given, the video has {}", rule.times.size(),
          each);
  for (int64_t i = 0; i < v.frames * area; ++i, to += KINORA_TOKEN_COLUMNS) {
    const int64_t frame = i / area, in_stream = frame % each;
    to[KINORA_TOKEN_INDEX] = first.index + i;
    to[KINORA_TOKEN_FRAME] = first.frame + frame;
    to[KINORA_TOKEN_TIME] =
        rule.times.empty() ? rule.start + in_stream : rule.times[static_cast<size_t>(in_stream)];
    to[KINORA_TOKEN_ROW] = i % area / v.cols;
    to[KINORA_TOKEN_COL] = i % v.cols;
    to[KINORA_TOKEN_STREAM] = rule.streams == 2 ? frame / each : 0;
    to[KINORA_TOKEN_CHUNK] = (rule.start + in_stream) / std::max<int64_t>(rule.chunk, 1);
    to[KINORA_TOKEN_SAMPLE] = first.sample;
  }
}

}  // namespace

at::Tensor token_table(const Frames& rule, const std::vector<VideoSize>& samples, int64_t padding) {
  // The number of tokens before `start` would depend on an area that differs between samples.
  if (samples.size() > 1 && rule.start > 0)
    raise(KINORA_UNSUPPORTED, "a packed row of {} videos cannot continue at frame {}; stream them one by one",
          samples.size(), rule.start);
  int64_t n = 0;
  for (const auto& v : samples) n += v.frames * v.rows * v.cols;
  auto table = at::zeros({1, n + padding, KINORA_TOKEN_COLUMNS}, at::kLong);
  auto* t = table.data_ptr<int64_t>();
  First first{samples.empty() ? 0 : rule.start * samples[0].rows * samples[0].cols, 0, 0};
  for (const auto& v : samples) {
    const int64_t tokens = v.frames * v.rows * v.cols;
    write_rows(t, rule, v, first);
    t += tokens * KINORA_TOKEN_COLUMNS;
    first = {first.index + tokens, first.frame + v.frames, first.sample + 1};
  }
  for (int64_t i = 0; i < padding; ++i, t += KINORA_TOKEN_COLUMNS)
    t[KINORA_TOKEN_INDEX] = t[KINORA_TOKEN_SAMPLE] = -1;
  return table;
}

at::Tensor token_table(const Frames& rule, int64_t frames, int64_t rows, int64_t cols, int64_t padding) {
  return token_table(rule, {{frames, rows, cols}}, padding);
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
