#include "core/torch/weights/eight_bits.hpp"

#include <cstring>

#include <ATen/ATen.h>

#include "core/torch/tensors/torch_guard.hpp"
#include "core/torch/weights/safe_tensors.hpp"
#include "host/weights/scaled_weight.hpp"

namespace kinora::core {
namespace {

// float32 of bytes at any alignment.
at::Tensor floats_of(const SafeTensor& t) {
  at::Tensor out = at::empty(t.shape, torch_dtype(t.dtype));
  std::memcpy(out.data_ptr(), t.bytes.data(), t.bytes.size());
  return out.to(at::kFloat);
}

at::Tensor checked_scale(const SafeTensor& t) {
  at::Tensor out = floats_of(t);
  if (!(out.isfinite() & out.ge(0)).all().item<bool>())
    raise(KINORA_ERROR_DATA, "'{}' holds scales that are negative or not finite; is the file whole?", t.name);
  return out;
}

}  // namespace

at::Tensor decoded_scaled(const SafeTensor& t) {
  const ScaledWeight& w = *t.scaled;
  at::Tensor scale = checked_scale(w.scale);
  if (w.second) scale = scale * checked_scale(*w.second).reshape({});
  at::Tensor out = floats_of(w.codes);
  const int64_t rows = t.shape.empty() ? 1 : t.shape[0], cols = out.numel() / rows;
  const int64_t down = (rows - 1) / w.block_rows + 1, across = (cols - 1) / w.block_cols + 1;
  const at::Tensor of_rows =
      scale.reshape({down, across}).repeat_interleave(w.block_rows, 0).narrow(0, 0, rows);
  at::Tensor matrix = out.view({rows, cols});
  for (int64_t i = 0, at = 0; i < across; ++i, at += w.block_cols)
    matrix.narrow(1, at, std::min(w.block_cols, cols - at)).mul_(of_rows.narrow(1, i, 1));
  return w.factor == 1 ? out : out.mul_(w.factor);
}

}  // namespace kinora::core
