// What weights a result was made with, as one text that others can compute too.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "core/plugin/manifest.hpp"

namespace kinora::core {

// The files that loading these paths reads, in order: shards of an index, the part of a pipeline's folder
// that fits the component, TorchScript archives as they are. Throws Error.
std::vector<std::filesystem::path> weights_files(const std::vector<std::filesystem::path>& given,
                                                 const ComponentSpec& component);

// "sha256:" and, of one file, what sha256sum and Hugging Face say of it; of several, the digest of
// sha256sum's lines "DIGEST  NAME", in their order. `kept` is a JSON file of digests by path, size and time
// of change, so that no file is read twice. Throws Error.
std::string weights_digest(const std::vector<std::filesystem::path>& files,
                           const std::filesystem::path& kept);

}  // namespace kinora::core
