// NumPy's .npy files of float32 numbers, version 1.0, the format of embeddings.
//
// Layout: "\x93NUMPY", the bytes 1 and 0, the length of the header as a little-endian uint16, the header, the
// data row by row. The header is a Python literal such as
// {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }, padded with spaces and ended by a newline
// so that the data begins at a multiple of 64. Specification: numpy.org, lib.format.
#pragma once
#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kinora/error.hpp"

KINORA_SDK_BEGIN

namespace kinora {

// One or two dimensions, row-major.
struct FloatArray {
  std::vector<int64_t> shape;
  std::vector<float> values;
  int64_t rows() const { return shape.size() == 2 ? shape[0] : 1; }
  int64_t columns() const { return shape.empty() ? 0 : shape.back(); }
  std::span<const float> row(int64_t i) const {
    const auto n = static_cast<size_t>(columns());
    return std::span(values).subspan(static_cast<size_t>(i) * n, n);
  }
};

inline std::string to_npy(std::span<const float> values, const std::vector<int64_t>& shape) {
  std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (";
  for (const int64_t n : shape) header += std::to_string(n) + ", ";
  header.resize(header.size() - (shape.size() > 1 ? 2 : 1));  // a tuple with one element keeps its comma
  header += "), }";
  constexpr size_t kBefore = 10, kUnit = 64;
  header.append(kUnit - 1 - (kBefore + header.size()) % kUnit, ' ');
  header += '\n';
  std::string out("\x93NUMPY\x01\x00", 8);
  out += static_cast<char>(header.size() & 0xFF);
  out += static_cast<char>(header.size() >> 8);
  out += header;
  out.append(reinterpret_cast<const char*>(values.data()), values.size_bytes());
  return out;
}

namespace detail {

// The text after 'name': in the header.
inline std::string_view npy_entry(std::string_view header, const char* name) {
  const auto at = header.find(std::string("'") + name + "':");
  if (at == header.npos) return {};
  header.remove_prefix(header.find(':', at) + 1);
  header.remove_prefix(std::min(header.find_first_not_of(' '), header.size()));
  return header;
}

inline std::vector<int64_t> npy_shape(std::string_view text) {
  std::vector<int64_t> out;
  const auto end = text.find(')');
  if (text.empty() || text.front() != '(' || end == text.npos) return out;
  const char *at = text.data() + 1, *stop = text.data() + end;
  while (at < stop) {
    int64_t n = 0;
    const auto [next, error] = std::from_chars(at, stop, n);
    if (error != std::errc() || n < 0) return {};
    out.push_back(n);
    at = next;
    while (at < stop && (*at == ',' || *at == ' ')) ++at;
  }
  return out;
}

}  // namespace detail

// `origin` names the file in errors. KINORA_ERROR_DATA: another dtype or order than the above, or a size
// that does not match.
inline FloatArray read_npy(std::string_view bytes, const std::string& origin) {
  const auto refuse = [&](const std::string& what) { return Error(KINORA_ERROR_DATA, origin + ": " + what); };
  if (bytes.size() < 10 || bytes.substr(0, 6) != std::string_view("\x93NUMPY", 6) || bytes[6] != 1)
    throw refuse("it is not a .npy file of version 1");
  const size_t length = static_cast<uint8_t>(bytes[8]) + 256u * static_cast<uint8_t>(bytes[9]);
  if (bytes.size() < 10 + length) throw refuse("its header is cut off");
  const std::string_view header = bytes.substr(10, length), data = bytes.substr(10 + length);
  if (!detail::npy_entry(header, "descr").starts_with("'<f4'") ||
      !detail::npy_entry(header, "fortran_order").starts_with("False"))
    throw refuse(
        "it must hold float32 numbers in C order; write it with numpy.save(file, x.astype('float32'))");
  FloatArray out;
  out.shape = detail::npy_shape(detail::npy_entry(header, "shape"));
  if (out.shape.empty() || out.shape.size() > 2) throw refuse("it must have one or two dimensions");
  size_t count = 1;
  for (const int64_t n : out.shape)
    if (__builtin_mul_overflow(count, static_cast<size_t>(n), &count)) throw refuse("its shape is too large");
  if (count > data.size() / 4 || count * 4 != data.size())
    throw refuse("expected " + std::to_string(count) + " numbers of 4 bytes for its shape, got " +
                 std::to_string(data.size()) + " bytes; write it again");
  out.values.resize(count);
  if (count) std::memcpy(out.values.data(), data.data(), data.size());
  return out;
}

}  // namespace kinora

KINORA_SDK_END
