#include "plugins/jobs/loading/join.hpp"

#include <algorithm>

#include <fmt/ranges.h>

#include "core/base/digest.hpp"
#include "core/base/log.hpp"
#include "core/base/quantity.hpp"
#include "plugins/jobs/loading/scan_samples.hpp"

namespace kinora::core {
namespace {

// The first 64 bits of the key's SHA-256.
uint64_t hash_of_key(const std::string& key) { return std::stoull(sha256(key).substr(0, 16), nullptr, 16); }

}  // namespace

Join::Join(const DataJoin& from, std::shared_ptr<SampleCache> cache)
    : set_(from.path, std::move(cache)), fields_(from.fields) {
  read_keys();
  refuse_second_keys();
}

void Join::read_keys() {
  using Hashes = std::vector<std::pair<uint64_t, uint32_t>>;  // with the number of the sample
  const auto damaged = scan_samples<Hashes>(
      set_, "join",
      [](const SampleShard& shard, uint64_t i, Hashes& out) {
        out.emplace_back(hash_of_key(shard.key(i)), static_cast<uint32_t>(i));
      },
      [&](size_t number, const Hashes& hashes) {
        for (const auto& [hash, i] : hashes) places_.push_back({hash, static_cast<uint32_t>(number), i});
      });
  if (!damaged.empty())
    log_warn("{}: {} cannot be used and are left out; the first: {}", set_.path(),
             counted(static_cast<int64_t>(damaged.size()), "sample", "samples"), damaged.front().why);
  std::sort(places_.begin(), places_.end(), [](const Place& a, const Place& b) {
    return std::tie(a.hash, a.shard, a.sample) < std::tie(b.hash, b.shard, b.sample);
  });
}

void Join::refuse_second_keys() const {
  for (size_t i = 1; i < places_.size(); ++i)
    for (size_t first = i; first-- > 0 && places_[first].hash == places_[i].hash;)
      if (const std::string key = key_at(places_[i]); key == key_at(places_[first]))
        throw Error(KINORA_ERROR_DATA,
                    fmt::format("{}: {} and {} have the same key '{}'; the keys of a joined set must differ",
                                set_.path(), text_of(places_[first]), text_of(places_[i]), key));
}

bool Join::gives(std::string_view field) const {
  return std::find(fields_.begin(), fields_.end(), field) != fields_.end();
}

std::string Join::identity() const {
  return fmt::format("join {} of {}", fmt::join(fields_, " "), set_.digest());
}

const Join::Place& Join::find(const std::string& key) const {
  const uint64_t hash = hash_of_key(key);
  auto at = std::lower_bound(places_.begin(), places_.end(), hash,
                             [](const Place& place, uint64_t wanted) { return place.hash < wanted; });
  for (; at != places_.end() && at->hash == hash; ++at)
    if (key_at(*at) == key) return *at;
  throw Error(KINORA_ERROR_DATA, fmt::format("{} has no sample with the key '{}'", set_.path(), key));
}

void Join::add_to(WebDatasetSample& sample) const {
  const Place& place = find(sample.key());
  WebDatasetSample other = set_.reading(place.shard, place.sample,
                                        [&](const SampleShard& shard) { return shard.at(place.sample); });
  for (const auto& name : fields_) {
    const auto is_it = [&](const WebDatasetSample::Field& field) { return field.name == name; };
    const auto from = std::find_if(other.fields.begin(), other.fields.end(), is_it);
    if (from == other.fields.end())
      throw Error(KINORA_ERROR_DATA,
                  fmt::format("{} ('{}') has no field '{}'", text_of(place), other.key(), name));
    const auto to = std::find_if(sample.fields.begin(), sample.fields.end(), is_it);
    if (to == sample.fields.end())
      sample.fields.push_back(std::move(*from));
    else
      to->bytes = std::move(from->bytes);
  }
}

nlohmann::json Join::facts(const std::string& key) const {
  const Place& place = find(key);
  return set_.reading(place.shard, place.sample,
                      [&](const SampleShard& shard) { return shard.facts(place.sample); });
}

}  // namespace kinora::core
