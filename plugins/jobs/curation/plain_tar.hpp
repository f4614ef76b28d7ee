// Samples in plain tar archives, parsed in memory: what nearly every WebDataset consists of. Everything else (long or
// foreign names, sparse files, damage) is left to libarchive, which reads it or says what is wrong.
#pragma once
#include <functional>
#include <optional>
#include <span>
#include <string_view>

#include "kinora/webdataset.hpp"

namespace kinora::core {

// The sample that the bytes are: ustar members of one key, each with a right checksum. Its `where` has the key
// alone. Nothing if there is anything else.
std::optional<WebDatasetSample> plain_sample(std::span<const uint8_t> bytes);

// Returns fewer than `size` bytes only at the end. May throw.
using ReadBytes = std::function<uint64_t(uint64_t offset, void* to, uint64_t size)>;
// The same for `size` bytes of which only the headers and the content of the field `wanted` are read; the other
// fields have only names.
std::optional<WebDatasetSample> plain_sample(const ReadBytes& read, uint64_t size, std::string_view wanted);

}  // namespace kinora::core
