#include <set>

#include <nlohmann/json.hpp>

#include "core/io/atomic_file.hpp"
#include "core/io/safetensors.hpp"
#include "core/io/safetensors_header.hpp"

namespace kinora::core {

namespace fs = std::filesystem;

Result<std::vector<SafeShard>> cut_into_shards(const fs::path& path, const std::vector<SafeTensor>& tensors,
                                               uint64_t most) {
  std::vector<SafeShard> out(1);
  std::set<std::string_view> seen;
  for (const auto& t : tensors) {
    if (!seen.insert(t.name).second)
      return fail(KINORA_INVALID, "{}: two tensors are called '{}'", path.string(), t.name);
    const uint64_t own = byte_size(t.shape, t.dtype).value_or(0);
    if (!out.back().tensors.empty() && out.back().bytes + own > most) out.emplace_back();
    out.back().tensors.push_back(t);
    out.back().bytes += own;
  }
  std::string stem = path.string();
  if (stem.ends_with(".safetensors")) stem.resize(stem.size() - std::string_view(".safetensors").size());
  for (size_t i = 0; i < out.size(); ++i) {
    out[i].path = out.size() == 1
                      ? path
                      : fs::path(fmt::format("{}-{:05}-of-{:05}.safetensors", stem, i + 1, out.size()));
    sort_as_written(out[i].tensors);
  }
  return out;
}

Result<fs::path> write_index(const fs::path& path, const std::vector<SafeShard>& shards) {
  if (shards.size() == 1) return path;
  uint64_t total = 0;
  nlohmann::json map = nlohmann::json::object();
  for (const auto& shard : shards) {
    for (const auto& t : shard.tensors) map[t.name] = shard.path.filename().string();
    total += shard.bytes;
  }
  const fs::path index =
      path.string() + (path.extension() == ".safetensors" ? "" : ".safetensors") + ".index.json";
  const nlohmann::json text = {{"metadata", {{"total_size", total}}}, {"weight_map", map}};
  if (auto s = write_file_atomically(index, text.dump(2) + "\n"); !s) return s.failure();
  return index;
}

Result<fs::path> write_safetensors_sharded(const fs::path& path, const std::vector<SafeTensor>& tensors,
                                           const SafeMetadata& metadata, uint64_t most,
                                           const BytesOf& bytes_of) {
  const auto shards = cut_into_shards(path, tensors, most);
  if (!shards) return shards.failure();
  for (const auto& shard : *shards)
    if (auto s = write_safetensors(shard.path, shard.tensors, metadata, bytes_of); !s) return s.failure();
  return write_index(path, *shards);
}

}  // namespace kinora::core
