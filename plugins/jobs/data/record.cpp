#include "plugins/jobs/data/record.hpp"

#include <nlohmann/json.hpp>

#include "core/base/digest.hpp"

namespace kinora::data {

using nlohmann::json;

const Record::Seen* Record::unchanged(const Shard& shard) const {
  const auto at = shards.find(shard.name);
  if (at == shards.end() || at->second.size != shard.size || at->second.modified != shard.modified)
    return nullptr;
  return &at->second;
}

Record read_record(const DataFolder& folder, const char* name) {
  const auto text = read_small(folder.meta_uri(name));
  if (!text) return {};
  const json all = json::parse(*text, nullptr, false);
  if (!all.is_object() || !all.contains("shards") || !all["shards"].is_object()) return {};
  Record out;
  const auto text_of = [&](const char* key) {
    return all.contains(key) && all[key].is_string() ? all[key].get<std::string>() : std::string();
  };
  out.index = text_of("index");
  out.split = text_of("split");
  if (all.contains("index_bytes") && all["index_bytes"].is_number_unsigned())
    out.index_bytes = all["index_bytes"];
  if (all.contains("val") && all["val"].is_number()) out.val = all["val"].get<double>();
  for (const auto& [shard, seen] : all["shards"].items()) {
    if (!seen.is_array() || seen.size() != 3 || !seen[0].is_number_unsigned() ||
        !seen[1].is_number_integer() || !seen[2].is_number_unsigned())
      return {};
    out.shards[shard] = {seen[0], seen[1], seen[2]};
  }
  return out;
}

void write_record(const DataFolder& folder, const char* name, const Record& record) {
  json all = json::object();
  if (!record.index.empty()) all["index"] = record.index;
  if (record.index_bytes > 0) all["index_bytes"] = record.index_bytes;
  if (!record.split.empty()) all["split"] = record.split;
  if (record.val) all["val"] = *record.val;
  json& shards = all["shards"] = json::object();
  for (const auto& [shard, seen] : record.shards) shards[shard] = {seen.size, seen.modified, seen.samples};
  write_small(folder.meta_uri(name), all.dump() + "\n");
}

std::string hash_of(std::string_view text) { return core::sha256(text).substr(0, 16); }

}  // namespace kinora::data
