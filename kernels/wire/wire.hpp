// Numbers on their way between ranks, in fewer bytes than they are computed in.
//
//   format    a part [rows, cols] takes                          relative error of normal values
//   same      the tensor's own bytes                             0
//   bfloat16  2 rows cols                                        about 0.2 %
//   fp8       rows cols + 4 rows ceil(cols / 128)                about 2.5 %
//   nvfp4     rows ceil(cols / 2) + rows ceil(cols / 16) + 4     about 9.5 %
//
// fp8: codes E4M3, then float32 scales of 1x128 values (kernels/fp8/scale.hpp, `row`). nvfp4: codes, then E4M3
// scales of 1x16 values, then the float32 global scale of the part (kernels/fp4/scale.hpp, static_6). Each part
// goes to one rank or comes from one, and is quantised by itself: no block is cut, and the last block of a row
// may be shorter. Every rank that gets a part decodes the same bytes to the same numbers.
//
// Infinities and NaN have no code. On the processor they are refused; on a GPU, which nothing waits for, the
// numbers that share their scale arrive as NaN.
#pragma once
#include <array>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "kinora/strategy.hpp"

namespace kinora::wire {

enum class Format { same, bfloat16, fp8, nvfp4 };

// The names that an option takes, with "auto" for `same`.
inline const std::vector<std::string>& format_names() {
  static const std::vector<std::string> names{"auto", "bfloat16", "fp8", "nvfp4"};
  return names;
}
Format format_of(const std::string& name);
inline bool is_quantised(Format f) { return f == Format::fp8 || f == Format::nvfp4; }

// For fp8 and nvfp4.
int64_t part_bytes(Format, int64_t rows, int64_t cols);

// x [parts, rows, cols] floating-point -> uint8 [parts, part_bytes]. what: names the numbers in the error, which
// is kinora::Error(KINORA_ERROR_FAILED) with the count of those that are not finite.
at::Tensor packed(const at::Tensor& x, Format, const std::string& what);
// uint8 [parts, part_bytes] -> [parts, rows, cols], float32 rounded to dtype.
at::Tensor unpacked(const at::Tensor& bytes, int64_t rows, int64_t cols, Format, at::ScalarType dtype);

namespace by_ops {  // the same bits from libtorch's operations, on any device; without the refusal
at::Tensor packed(const at::Tensor& x, Format);
at::Tensor unpacked(const at::Tensor& bytes, int64_t rows, int64_t cols, Format, at::ScalarType dtype);
}  // namespace by_ops

// Measures what a format costs: it compares the first transfers of a run with their numbers, on the processor.
class Meter {
 public:
  void add(const at::Tensor& x, const at::Tensor& bytes, const at::Tensor& back);
  // "1.03 bytes a number instead of 4, relative error 2.6 %"; of a GPU without the error. Empty if nothing was
  // added.
  std::string told() const;

 private:
  double squared_ = 0, squared_error_ = 0, bytes_ = 0, numbers_ = 0, own_bytes_ = 0;
  bool measured_ = true;
};

// All-to-all of x [P, ..., n] along the first dimension, P the size of the group; rows are the last dimension.
// there: the format of the values, back: of their gradients in the backward. meter: null, or receives the
// values' cost.
at::Tensor exchanged(const Group<at::Tensor>& group, const at::Tensor& x, Format there, Format back,
                     const std::string& what, Meter* meter);

}  // namespace kinora::wire
