#include "kernels/wire/wire.hpp"

#include <algorithm>
#include <cstdio>

#include <ATen/ATen.h>

#include "kernels/fp4/quantize.hpp"
#include "kernels/fp8/quantize.hpp"
#include "kinora/aten.hpp"
#include "kinora/transfers.hpp"

namespace kinora::wire {
namespace {

using at::Tensor;

const fp8::Options kFp8{fp8::Format::e4m3, fp8::Scaling::row, fp8::ScaleRule::exact, false, false};

// Where the parts of a part begin.
struct Places {
  int64_t scales, global, end;
  Places(Format format, const fp4::Shape& n) {
    scales = format == Format::fp8 ? n.rows * n.cols : fp4::code_bytes(n);
    global = scales + (format == Format::fp8 ? fp8::scale_bytes(n, fp8::Scaling::row, false)
                                             : fp4::scale_bytes(n, false));
    end = global + (format == Format::fp8 ? 0 : int64_t{sizeof(float)});
  }
};

// Returns the count of values that are not finite. Scales are copied, since their places are not aligned.
uint64_t pack(const fp4::Shape& n, const float* x, Format format, uint8_t* to) {
  const Places at(format, n);
  if (format == Format::fp8) {
    std::vector<float> scales(static_cast<size_t>(at.end - at.scales) / sizeof(float));
    const uint64_t bad = fp8::quantize(n, x, kFp8, 0, to, scales.data());
    std::memcpy(to + at.scales, scales.data(), scales.size() * sizeof(float));
    return bad;
  }
  fp4::Options options;
  options.rule = fp4::ScaleRule::static_6;
  const auto amax = fp4::find_amax(n, x, false);
  const float global = fp4::quantize(n, x, options, amax.value, to, to + at.scales);
  std::memcpy(to + at.global, &global, sizeof global);
  return amax.non_finite;
}

void unpack(const fp4::Shape& n, const uint8_t* from, Format format, float* x) {
  const Places at(format, n);
  if (format == Format::fp8) {
    std::vector<float> scales(static_cast<size_t>(at.end - at.scales) / sizeof(float));
    std::memcpy(scales.data(), from + at.scales, scales.size() * sizeof(float));
    return fp8::dequantize(n, from, scales.data(), kFp8, x);
  }
  float global = 0;
  std::memcpy(&global, from + at.global, sizeof global);
  fp4::dequantize(n, from, from + at.scales, false, global, x);
}

}  // namespace

Format format_of(const std::string& name) {
  const auto& names = format_names();
  const auto it = std::find(names.begin(), names.end(), name);
  if (it == names.end()) throw Error(KINORA_ERROR_INVALID, "'" + name + "' is not a format of transfers");
  return static_cast<Format>(it - names.begin());
}

int64_t part_bytes(Format format, int64_t rows, int64_t cols) { return Places(format, {rows, cols}).end; }

Tensor packed(const Tensor& x, Format format, const std::string& what) {
  if (!x.is_cpu()) return by_ops::packed(x, format);
  const Tensor values = x.to(at::kFloat).contiguous();
  const fp4::Shape n{x.size(1), x.size(2)};
  const int64_t bytes = part_bytes(format, n.rows, n.cols);
  const Tensor out = at::empty({x.size(0), bytes}, at::kByte);
  uint64_t bad = 0;
  for (int64_t p = 0; p < x.size(0); ++p)
    bad += pack(n, values.const_data_ptr<float>() + p * n.rows * n.cols, format,
                out.data_ptr<uint8_t>() + p * bytes);
  if (bad == 0) return out;
  throw Error(KINORA_ERROR_FAILED, what + ": " + std::to_string(bad) + " of " + std::to_string(x.numel()) +
                                       " numbers to send are infinite or NaN, which " +
                                       format_names()[static_cast<size_t>(format)] +
                                       " does not hold; lower the learning rate, or send them in bfloat16");
}

Tensor unpacked(const Tensor& bytes, int64_t rows, int64_t cols, Format format, at::ScalarType dtype) {
  if (!bytes.is_cpu()) return by_ops::unpacked(bytes, rows, cols, format, dtype);
  const Tensor from = bytes.contiguous(), out = at::empty({bytes.size(0), rows, cols}, at::kFloat);
  for (int64_t p = 0; p < bytes.size(0); ++p)
    unpack({rows, cols}, from.const_data_ptr<uint8_t>() + p * from.size(1), format,
           out.data_ptr<float>() + p * rows * cols);
  return out.to(dtype);
}

void Meter::add(const Tensor& x, const Tensor& bytes, const Tensor& back) {
  numbers_ += static_cast<double>(x.numel());
  own_bytes_ += static_cast<double>(x.nbytes());
  bytes_ += static_cast<double>(bytes.nbytes());
  measured_ = measured_ && x.is_cpu();
  if (!measured_) return;
  const Tensor exact = x.detach().to(at::kDouble), error = back.to(at::kDouble) - exact;
  squared_ += exact.square().sum().item<double>();
  squared_error_ += error.square().sum().item<double>();
}

std::string Meter::told() const {
  if (numbers_ == 0) return "";
  char text[128];
  std::snprintf(text, sizeof text, "%.3g bytes a number instead of %.3g", bytes_ / numbers_,
                own_bytes_ / numbers_);
  std::string out = text;
  if (!measured_) return out;
  std::snprintf(text, sizeof text, ", relative error %.2g %%",
                squared_ > 0 ? 100 * std::sqrt(squared_error_ / squared_) : 0.0);
  return out + text;
}

namespace {

Tensor all_to_all(const Group<Tensor>& group, const Tensor& x, Format format, const std::string& what,
                  Meter* meter) {
  if (format == Format::same) return group.exchange(x, 0, 0);
  if (format == Format::bfloat16) {
    const Tensor narrow = x.to(at::kBFloat16);
    if (meter) meter->add(x, narrow, narrow);
    return group.exchange(narrow, 0, 0).to(x.scalar_type());
  }
  const Tensor parts = x.reshape({x.size(0), -1, x.size(-1)});
  const int64_t rows = parts.size(1), cols = parts.size(2);
  const Tensor bytes = packed(parts, format, what);
  if (meter) meter->add(parts, bytes, unpacked(bytes, rows, cols, format, at::kFloat));
  return unpacked(group.exchange(bytes, 0, 0), rows, cols, format, x.scalar_type()).view(x.sizes());
}

}  // namespace

Tensor exchanged(const Group<Tensor>& group, const Tensor& x, Format there, Format back,
                 const std::string& what, Meter* meter) {
  return detail::transferred(
      group, x, [=](const Group<Tensor>& g, const Tensor& t) { return all_to_all(g, t, there, what, meter); },
      [=](const Group<Tensor>& g, const Tensor& t) {
        return all_to_all(g, t, back, what + "'s gradients", nullptr);
      });
}

}  // namespace kinora::wire
