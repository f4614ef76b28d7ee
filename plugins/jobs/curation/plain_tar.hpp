// Samples in plain tar archives, parsed in memory: what nearly every WebDataset consists of. Everything else (long or
// foreign names, sparse files, damage) is left to libarchive, which reads it or says what is wrong.
#pragma once
#include <optional>
#include <span>

#include "kinora/webdataset.hpp"

namespace kinora::core {

// The sample that the bytes are: ustar members of one key, each with a right checksum. Its `where` has the key
// alone. Nothing if there is anything else. contents: else fields have only names.
std::optional<WebDatasetSample> plain_sample(std::span<const uint8_t> bytes, bool contents = true);

}  // namespace kinora::core
