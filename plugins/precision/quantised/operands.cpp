#include "plugins/precision/quantised/operands.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <mutex>

#include "kernels/torch/parallel.hpp"

namespace kinora::quantised {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr int64_t kTaskValues = 1 << 14;

// Rows [row, row + rows) of matrix `of`, whose first has number `noise` in the noise.
struct Task {
  int64_t of, row, rows, noise, noise_col;
};

// Cuts rows into tasks of about equal work that begin at multiples of `unit` rows.
void cut(std::vector<Task>& to, Task all, int64_t cols, int64_t unit) {
  const int64_t wish = std::max<int64_t>(1, kTaskValues / std::max<int64_t>(cols, 1)),
                each = (wish + unit - 1) / unit * unit;
  for (int64_t done = 0; done < all.rows; done += each)
    to.push_back({all.of, all.row + done, std::min(each, all.rows - done), all.noise + done, all.noise_col});
}

// Calls f with the number of each task.
void run_numbered(const std::vector<Task>& tasks, const std::function<void(size_t)>& f) {
  in_parallel(static_cast<int64_t>(tasks.size()), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) f(static_cast<size_t>(i));
  });
}
void run(const std::vector<Task>& tasks, const std::function<void(const Task&)>& f) {
  run_numbered(tasks, [&](size_t i) { f(tasks[i]); });
}

Tensor empty(const std::vector<int64_t>& shape, int32_t dtype) {
  kinora_tensor out = nullptr;
  check(tensors_api().empty(shape.data(), static_cast<int64_t>(shape.size()), dtype, nullptr, &out));
  return Tensor::adopt(out);
}

int64_t unit_of(const Format& format, const Use& use) {
  return use.operand == Operand::weight && format.square() ? format.group() : 1;
}

std::vector<float> largest(const Format& format, const Use& use, const std::vector<Task>& tasks,
                           int64_t matrices, int64_t cols,
                           const std::function<const float*(const Task&)>& at) {
  std::vector<float> out(static_cast<size_t>(matrices));
  std::mutex mutex;
  run(tasks, [&](const Task& t) {
    const float one = format.amax(use, {t.rows, cols}, at(t));
    const std::lock_guard lock(mutex);
    float& most = out[static_cast<size_t>(t.of)];
    most = std::max(most, one);
  });
  return out;
}

// The rows of a task in the layout of a whole matrix's codes and scales.
struct Codes {
  uint8_t *codes, *scales;
};
Codes codes_at(const Format& format, const Packed& p, const Task& t) {
  const Shape before{t.row, p.shape.cols};
  return {p.codes.data<uint8_t>() + t.of * format.code_bytes(p.shape) + format.code_bytes(before),
          p.scales.data<uint8_t>() + t.of * format.scale_bytes(p.use, p.shape) +
              format.scale_bytes(p.use, before)};
}

Packed room_for(const Format& format, const Use& use, const Shape& shape, int64_t count) {
  return {use,
          shape,
          count,
          empty({count * format.code_bytes(shape)}, KINORA_DTYPE_UINT8),
          empty({count * format.scale_bytes(use, shape)}, KINORA_DTYPE_UINT8),
          std::vector<float>(static_cast<size_t>(count), kNan)};
}

// Encodes the tasks, which cover p's matrices.
void fill(const Format& format, Packed& p, const float* x, const std::vector<float>& amax, uint64_t key,
          uint32_t stream, const std::vector<Task>& tasks) {
  run(tasks, [&](const Task& t) {
    const auto of = static_cast<size_t>(t.of);
    if (!std::isfinite(amax[of])) return;
    const Codes to = codes_at(format, p, t);
    const float global =
        format.encode(p.use, {t.rows, p.shape.cols}, x + (t.of * p.shape.rows + t.row) * p.shape.cols,
                      amax[of], {key, stream, t.noise, t.noise_col}, to.codes, to.scales);
    if (t.row == 0) p.global[of] = global;
  });
}

std::vector<Task> matrices(const Shape& shape, int64_t count, int64_t unit) {
  std::vector<Task> out;
  for (int64_t i = 0; i < count; ++i) cut(out, {i, 0, shape.rows, 0, 0}, shape.cols, unit);
  return out;
}

Shape matrix_of(const Tensor& x) { return {x.size(-2), x.size(-1)}; }
int64_t count_of(const Tensor& x) { return x.dim() == 3 ? x.size(0) : 1; }

}  // namespace

Tensor decoded(const Format& format, const Packed& p) {
  const Tensor out = empty({p.count, p.shape.rows, p.shape.cols}, KINORA_DTYPE_FLOAT32);
  float* const to = out.data<float>();
  run(matrices(p.shape, p.count, unit_of(format, p.use)), [&](const Task& t) {
    float* const x = to + (t.of * p.shape.rows + t.row) * p.shape.cols;
    const float global = p.global[static_cast<size_t>(t.of)];
    if (std::isnan(global)) return std::fill_n(x, t.rows * p.shape.cols, kNan), void();
    const Codes from = codes_at(format, p, t);
    format.decode(p.use, {t.rows, p.shape.cols}, from.codes, from.scales, global, x);
  });
  return out;
}

std::vector<float> amax_of(const Format& format, const Use& use, const Tensor& x) {
  const Shape shape = matrix_of(x);
  const float* const from = x.data<float>();
  return largest(format, use, matrices(shape, count_of(x), 1), count_of(x), shape.cols,
                 [&](const Task& t) { return from + (t.of * shape.rows + t.row) * shape.cols; });
}

Packed packed(const Format& format, const Use& use, const Tensor& x, const std::vector<float>& amax) {
  Packed out = room_for(format, use, matrix_of(x), count_of(x));
  fill(format, out, x.data<float>(), amax, 0, 0, matrices(out.shape, out.count, unit_of(format, use)));
  return out;
}

std::vector<float> amax_of_rows(const Format& format, const Use& use, const Tensor& x, const Tokens& tokens) {
  const int64_t samples = x.size(0), cols = x.size(2);
  const float* const from = x.data<float>();
  std::vector<Task> tasks;
  for (int64_t b = 0; b < samples; ++b)
    for (const Run& r : tokens.runs) cut(tasks, {b, r.row, r.count, 0, 0}, cols, 1);
  return largest(format, use, tasks, samples, cols,
                 [&](const Task& t) { return from + (t.of * tokens.rows + t.row) * cols; });
}

namespace {

// Encodes and decodes rows of a tensor [rows, stride], of which it takes `cols` columns.
void round_task(const Format& format, const Use& use, const float* x, float* to, int64_t stride, Shape shape,
                float amax, const Noise& noise, Sums* sums) {
  std::vector<float> in, out;
  if (stride != shape.cols) {
    in.resize(static_cast<size_t>(shape.rows * shape.cols));
    out.resize(in.size());
    for (int64_t r = 0; r < shape.rows; ++r)
      std::copy_n(x + r * stride, shape.cols, in.data() + r * shape.cols);
  }
  const float* const from = in.empty() ? x : in.data();
  float* const into = in.empty() ? to : out.data();
  std::vector<uint8_t> codes(static_cast<size_t>(format.code_bytes(shape))),
      scales(static_cast<size_t>(format.scale_bytes(use, shape)));
  const float global = format.encode(use, shape, from, amax, noise, codes.data(), scales.data());
  format.decode(use, shape, codes.data(), scales.data(), global, into);
  if (sums) *sums = format.sums(use, shape, from, codes.data(), into);
  if (!in.empty())
    for (int64_t r = 0; r < shape.rows; ++r) std::copy_n(into + r * shape.cols, shape.cols, to + r * stride);
}

}  // namespace

Tensor rounded_rows(const Format& format, const Use& use, const Tensor& x, const Tokens& tokens,
                    const std::vector<Channels>& channels, const std::vector<float>& amax,
                    const NoiseSource& noise, Sums* sums) {
  const int64_t samples = x.size(0), cols = x.size(2);
  const Tensor out = empty({samples, tokens.rows, cols}, KINORA_DTYPE_FLOAT32);
  if (static_cast<int64_t>(tokens.order.size()) < tokens.rows)
    std::fill_n(out.data<float>(), out.numel(), 0.0f);  // padding
  const float* const from = x.data<float>();
  float* const to = out.data<float>();
  for (const Channels& c : channels) {
    std::vector<Task> tasks;
    for (int64_t b = 0; b < samples; ++b)
      for (const Run& r : tokens.runs)
        cut(tasks, {b, r.row, r.count, noise_row(noise, b, r.index), c.global}, c.count, 1);
    std::vector<Sums> of_tasks(sums ? tasks.size() : 0);  // added in a fixed order, so that they repeat
    run_numbered(tasks, [&](size_t i) {
      const Task& t = tasks[i];
      const int64_t at = (t.of * tokens.rows + t.row) * cols + c.first;
      const float most = amax[static_cast<size_t>(t.of)];
      if (!std::isfinite(most)) {
        for (int64_t r = 0; r < t.rows; ++r) std::fill_n(to + at + r * cols, c.count, kNan);
        return;
      }
      round_task(format, use, from + at, to + at, cols, {t.rows, c.count}, most,
                 {noise.key, 0, t.noise, t.noise_col}, sums ? &of_tasks[i] : nullptr);
    });
    for (const Sums& one : of_tasks) add(*sums, one);
  }
  return out;
}

std::vector<Tensor> columns_of(const Tensor& x, const Tokens& tokens, int64_t tile) {
  const int64_t samples = x.size(0), channels = x.size(2);
  constexpr int64_t kChannels = 64;  // a task's: whole cache lines of each token
  const float* const from = x.data<float>();
  std::vector<Tensor> out;
  for (const Run& s : tokens.stretches) {
    const int64_t padded = (s.count + tile - 1) / tile * tile;
    out.push_back(empty({samples, channels, padded}, KINORA_DTYPE_FLOAT32));
    float* const to = out.back().data<float>();
    std::vector<Task> tasks;
    for (int64_t b = 0; b < samples; ++b)
      for (int64_t c = 0; c < channels; c += kChannels)
        tasks.push_back({b, c, std::min(kChannels, channels - c), 0, 0});
    run(tasks, [&](const Task& t) {
      float* const block = to + (t.of * channels + t.row) * padded;
      for (int64_t i = 0; i < s.count; ++i) {
        const int64_t row = tokens.order[static_cast<size_t>(s.row + i)];
        const float* const line = from + (t.of * tokens.rows + row) * channels + t.row;
        for (int64_t c = 0; c < t.rows; ++c) block[c * padded + i] = line[c];
      }
      for (int64_t c = 0; c < t.rows; ++c) std::fill_n(block + c * padded + s.count, padded - s.count, 0.0f);
    });
  }
  return out;
}

std::vector<float> amax_of_columns(const Format& format, const Use& use, const std::vector<Tensor>& columns,
                                   int64_t samples) {
  std::vector<float> out(static_cast<size_t>(samples));
  for (const Tensor& x : columns) {
    const auto one = amax_of(format, use, x);
    std::transform(one.begin(), one.end(), out.begin(), out.begin(),
                   [](float a, float b) { return std::max(a, b); });
  }
  return out;
}

std::vector<Packed> packed_columns(const Format& format, const Use& use, const std::vector<Tensor>& columns,
                                   const Tokens& tokens, const std::vector<Channels>& channels,
                                   const std::vector<float>& amax, const NoiseSource& noise) {
  std::vector<Packed> out;
  for (size_t i = 0; i < columns.size(); ++i) {
    const Shape shape = matrix_of(columns[i]);
    std::vector<Task> tasks;
    for (int64_t b = 0; b < columns[i].size(0); ++b)
      for (const Channels& c : channels)
        cut(tasks, {b, c.first, c.count, noise_row(noise, b, c.global), tokens.stretches[i].index},
            shape.cols, 1);
    out.push_back(room_for(format, use, shape, columns[i].size(0)));
    fill(format, out.back(), columns[i].data<float>(), amax, noise.key, 1, tasks);
  }
  return out;
}

}  // namespace kinora::quantised
