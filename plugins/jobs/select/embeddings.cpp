#include "plugins/jobs/select/embeddings.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/ranges.h>

#include "core/base/quantity.hpp"
#include "kinora/error.hpp"
#include "kinora/npy.hpp"
#include "plugins/jobs/curation/search/collection.hpp"

namespace kinora::core {

EmbeddingRows read_embeddings(Io& io, const std::filesystem::path& data, const std::string& name,
                              const std::vector<std::string>& keys, uint64_t memory) {
  EmbeddingRows out;
  for (const auto& key : keys) {
    const std::string file = (data / (key + "." + name + ".npy")).string();
    const auto bytes = io.read_all(file);
    if (!bytes) {
      const auto known = catching([&] { return Collection({data}).names(); });  // fails if there are none
      throw Error(
          KINORA_ERROR_INVALID,
          fmt::format("clip '{}' has no embedding '{}'; name another one by `embedding` (there are: {}), "
                      "or put a stage embed.* into the curate job",
                      key, name, known ? fmt::format("{}", fmt::join(*known, ", ")) : "none"));
    }
    const FloatArray array = read_npy(*bytes, file);
    if (array.values.empty() || (out.size > 0 && array.values.size() != out.size))
      throw Error(KINORA_ERROR_DATA,
                  fmt::format("{}: it has {} numbers, the others {}", file, array.values.size(), out.size));
    if (!std::all_of(array.values.begin(), array.values.end(), [](float x) { return std::isfinite(x); }))
      throw Error(
          KINORA_ERROR_DATA,
          fmt::format("clip '{}': its embedding '{}' has a number that is not finite, so nothing says how "
                      "different it is; leave the clip out by `where`, such as key != '{}'",
                      key, name, key));
    out.size = array.values.size();
    const uint64_t needed = uint64_t{keys.size()} * out.size * sizeof(float);
    if (needed > memory)
      throw Error(
          KINORA_ERROR_INVALID,
          fmt::format("the embeddings of {} clips need {}, and memory = \"{}\" bounds them; raise memory, or "
                      "leave clips out by `where` or an earlier select job",
                      keys.size(), format_size(needed), format_size(memory)));
    out.values.reserve(keys.size() * out.size);
    out.values.insert(out.values.end(), array.values.begin(), array.values.end());
  }
  return out;
}

}  // namespace kinora::core
