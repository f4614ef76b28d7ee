#include <algorithm>

#include <nlohmann/json.hpp>

#include "core/io/atomic_file.hpp"
#include "core/io/safetensors.hpp"
#include "core/io/safetensors_header.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;

// Greedily, in order: each group has at most `most` bytes, or is one tensor.
std::vector<std::vector<SafeTensor>> grouped(const std::vector<SafeTensor>& tensors, uint64_t most,
                                             uint64_t& total) {
  std::vector<std::vector<SafeTensor>> out(1);
  uint64_t size = 0;
  total = 0;
  for (const auto& t : tensors) {
    const uint64_t own = byte_size(t.shape, t.dtype).value_or(0);
    if (!out.back().empty() && size + own > most) out.emplace_back(), size = 0;
    out.back().push_back(t);
    size += own;
    total += own;
  }
  return out;
}

}  // namespace

Result<fs::path> write_safetensors_sharded(const fs::path& path, const std::vector<SafeTensor>& tensors,
                                           const SafeMetadata& metadata, uint64_t most,
                                           const BytesOf& bytes_of) {
  uint64_t total = 0;
  const auto groups = grouped(tensors, most, total);
  if (groups.size() == 1) {
    if (auto s = write_safetensors(path, tensors, metadata, bytes_of); !s) return s.failure();
    return path;
  }
  std::string stem = path.string();
  if (stem.ends_with(".safetensors")) stem.resize(stem.size() - std::string_view(".safetensors").size());
  nlohmann::json map = nlohmann::json::object();
  for (size_t i = 0; i < groups.size(); ++i) {
    const fs::path shard = fmt::format("{}-{:05}-of-{:05}.safetensors", stem, i + 1, groups.size());
    for (const auto& t : groups[i]) {
      if (map.contains(t.name))
        return fail(KINORA_INVALID, "{}: two tensors are called '{}'", path.string(), t.name);
      map[t.name] = shard.filename().string();
    }
    if (auto s = write_safetensors(shard, groups[i], metadata, bytes_of); !s) return s.failure();
  }
  const fs::path index = stem + ".safetensors.index.json";
  const nlohmann::json text = {{"metadata", {{"total_size", total}}}, {"weight_map", map}};
  if (auto s = write_file_atomically(index, text.dump(2) + "\n"); !s) return s.failure();
  return index;
}

}  // namespace kinora::core
