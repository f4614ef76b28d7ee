// The JSON header of a safetensors file, read event by event, so that a hostile header can make us build
// nothing but tensors.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "host/weights/safetensors.hpp"

namespace kinora::core {

struct SafeEntry {
  SafeTensor tensor;  // without bytes
  uint64_t begin = 0, end = 0;
};

struct SafeHeader {
  std::vector<SafeEntry> entries;  // sorted by name, names differ
  SafeMetadata metadata;
};

// Checks the header by itself: known keys and dtypes, no duplicate names, end - begin equal to the size of
// shape and dtype.
Result<SafeHeader> parse_safe_header(std::string_view json, std::string_view origin);

// The header of these tensors (without their bytes) in this order, data offsets from 0 on, padded with spaces
// to a multiple of 8.
std::string make_safe_header(const std::vector<SafeTensor>& tensors, const SafeMetadata& metadata);

// Dtype descending, then name.
void sort_as_written(std::vector<SafeTensor>& tensors);

// Elements times size, or nothing if the product exceeds 63 bits.
std::optional<uint64_t> byte_size(const std::vector<int64_t>& shape, SafeDtype dtype);

// "[2, 3]"
std::string text_of(const std::vector<int64_t>& shape);

}  // namespace kinora::core
