#include "plugins/jobs/loading/data_set.hpp"

#include <numeric>

#include <fmt/format.h>

#include "core/base/digest.hpp"
#include "plugins/jobs/loading/kept_samples.hpp"

namespace kinora::core {

DataSet::DataSet(const DataInput& input, const std::shared_ptr<SampleCache>& cache)
    : set_(input.source ? ShardSet(input.path, *input.source) : ShardSet(input.path, cache)),
      samples_(set_.samples()) {
  for (const auto& from : input.joins) joins_.emplace_back(from, cache);
  if (input.part != std::pair<double, double>{0, 1} || !input.where.empty()) {
    rule_ = fmt::format("part {} {} where {}", input.part.first, input.part.second, input.where);
    KeptSamples kept =
        kept_samples(set_, input, [this](const SampleShard& shard, uint64_t i, const std::string& key) {
          return facts(shard, i, key);
        });
    kept_ = std::move(kept.numbers);
    unread_ = std::move(kept.damaged);
    without_part_ = kept.without_part;
    without_where_ = kept.without_where;
    for (size_t shard = 0; shard < kept_.size(); ++shard) samples_[shard] = kept_[shard].size();
  }
  size_ = std::accumulate(samples_.begin(), samples_.end(), uint64_t{0});
}

nlohmann::json DataSet::facts(const SampleShard& shard, uint64_t i, const std::string& key) const {
  for (const auto& join : joins_)
    if (join.gives("json")) return join.facts(key);
  return shard.facts(i);
}

std::vector<UnreadSample> DataSet::take_unread() {
  auto out = std::exchange(unread_, {});
  for (auto& one : set_.take_unread()) out.push_back(std::move(one));
  return out;
}

std::string DataSet::digest() const {
  if (rule_.empty() && joins_.empty()) return set_.digest();
  Sha256 out;
  const auto add = [&](const std::string& text) { out.add(text.data(), text.size()); };
  add(set_.digest() + "\n" + rule_ + "\n");
  for (const auto& join : joins_) add(join.identity() + "\n");
  for (const auto& kept : kept_) {
    add(std::to_string(kept.size()) + "\n");
    out.add(kept.data(), kept.size() * sizeof kept[0]);
  }
  return out.hex();
}

WebDatasetSample DataSet::read(ShardOrder::Place place) const {
  auto out = reading(place, [](const SampleShard& shard, uint64_t i) { return shard.at(i); });
  for (const auto& join : joins_) join.add_to(out);
  return out;
}

uint64_t DataSet::bytes(ShardOrder::Place place) const {
  return reading(place, [](const SampleShard& shard, uint64_t i) { return shard.bytes(i); });
}

void DataSet::add_to(DataCounts& counts) const {
  const auto add = [&](const ShardSet& set) {
    const ReadCounts& of = set.counts();
    counts.bytes[set.path()] += of.bytes;
    counts.cache_hits += of.cache_hits;
    counts.cache_bytes += of.cache_bytes;
  };
  add(set_);
  counts.left_out["part"] += without_part_;
  counts.left_out["where"] += without_where_;
  for (const auto& join : joins_) add(join.set());
}

nlohmann::json DataSet::facts(ShardOrder::Place place) const {
  return reading(place, [this](const SampleShard& shard, uint64_t i) {
    return facts(shard, i, joins_.empty() ? "" : shard.key(i));
  });
}

std::string DataSet::key(ShardOrder::Place place) const {
  std::string out = reading(place, [](const SampleShard& shard, uint64_t i) { return shard.key(i); });
  for (const auto& join : joins_) join.check(out);
  return out;
}

}  // namespace kinora::core
