#include "plugins/jobs/data/fields.hpp"

#include <algorithm>

namespace kinora::data {
namespace {

constexpr size_t kMostGroups = 100, kMostNames = 1000;  // bound the memory for hostile shards

}  // namespace

void FieldSets::add(const energon::StoredSample& sample) {
  Names names;
  for (const auto& part : sample.parts)
    if (const auto name = field_name(part.name); !optional_.contains(name) && names.size() < kMostNames)
      names.insert(name);
  auto& groups = shards_.back();
  const auto known = groups.find(names);
  if (known != groups.end()) {
    ++known->second.count;
    return;
  }
  if (groups.size() == kMostGroups) return;
  for (const auto& name : names)
    if (all_.size() < kMostNames) all_.insert(name);
  groups.emplace(std::move(names), Group{1, sample.key, sample.offset});
}

std::vector<Problem> FieldSets::missing(size_t shard, const std::string& name) const {
  std::vector<Problem> out;
  for (const auto& field : all_) {
    const Group* first = nullptr;
    uint64_t without = 0, all = 0;
    for (const auto& [names, group] : shards_[shard]) {
      all += group.count;
      if (names.contains(field)) continue;
      without += group.count;
      if (!first || group.offset < first->offset) first = &group;
    }
    if (!first) continue;
    out.push_back(
        {name, first->key, first->offset,
         fmt::format("no field {}, which other samples have, in {} of the {} samples of this shard; "
                     "add it, or allow it with --optional {}",
                     field, without, all, field)});
  }
  return out;
}

}  // namespace kinora::data
