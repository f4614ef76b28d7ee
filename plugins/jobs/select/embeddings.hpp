// The embeddings of a curate job's clips.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "core/io/io.hpp"

namespace kinora::core {

struct EmbeddingRows {
  std::vector<float> values;  // [clips, size]
  size_t size = 0;
};

// Reads KEY.NAME.npy of each key from a curate job's data folder. Throws kinora::Error: KINORA_ERROR_INVALID
// if a clip has no such embedding or all together need more than `memory` bytes, KINORA_ERROR_DATA if one has
// another size than the others or a number that is not finite.
EmbeddingRows read_embeddings(Io& io, const std::filesystem::path& data, const std::string& name,
                              const std::vector<std::string>& keys, uint64_t memory);

}  // namespace kinora::core
