// Identifies the weights behind a result by one text that others can recompute.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "core/plugin/manifest.hpp"

namespace kinora::core {

// The files that loading these paths reads, in order: shards of an index, the part of a pipeline's folder that fits
// the component, TorchScript archives themselves. Throws Error.
std::vector<std::filesystem::path> weights_files(const std::vector<std::filesystem::path>& given,
                                                 const ComponentSpec& component);

// "sha256:" followed by the digest: for one file, the one that sha256sum and Hugging Face show; for several, the digest
// of sha256sum's lines "DIGEST  NAME", in order. `kept` is a JSON file that caches digests by path, size and
// modification time, so that no file is read twice. Throws Error.
std::string weights_digest(const std::vector<std::filesystem::path>& files,
                           const std::filesystem::path& kept);

}  // namespace kinora::core
