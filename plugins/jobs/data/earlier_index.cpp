#include "plugins/jobs/data/earlier_index.hpp"

#include "core/base/status.hpp"

namespace kinora::data {

EarlierIndex::EarlierIndex(const DataFolder& folder)
    : record_(read_record(folder, kIndexRecord)), uri_(folder.meta_uri("index.sqlite")) {
  const auto at = folder.meta.find("index.sqlite");
  if (record_.index.empty() || at == folder.meta.end() || at->second != record_.index_bytes ||
      read_small(folder.meta_uri("index.uuid")) != record_.index)
    return;
  const auto read = core::catching([&] {
    if (auto info = read_info(folder)) numbers_ = *std::move(info);
  });
  if (!read && read.failure().code != KINORA_ERROR_DATA)
    throw Error(read.failure().code, read.failure().message);
}

bool EarlierIndex::knows(const Shard& shard) const {
  const auto* seen = record_.unchanged(shard);
  return seen && numbers_.contains(shard.name) && shard.index_size == 8 * (seen->samples + 1);
}

bool EarlierIndex::knows_exactly(const std::vector<Shard>& shards) const {
  if (shards.size() != numbers_.size()) return false;
  for (size_t i = 0; i < shards.size(); ++i)
    if (!knows(shards[i]) || numbers_.at(shards[i].name).number != i) return false;
  return true;
}

void EarlierIndex::read(const Shard& shard, const PushPiece& push) {
  if (!index_) index_ = std::make_unique<StoredIndex>(uri_);
  uint64_t count = 0;
  const PushPiece counted = [&](Piece piece) {
    count += piece.samples.size();
    return push(std::move(piece));
  };
  Pieces pieces(counted);
  index_->begin(numbers_.at(shard.name).number);
  while (auto sample = index_->next())
    if (!pieces.add(*std::move(sample))) return;
  pieces.flush();
  if (count != record_.shards.at(shard.name).samples)
    throw Error(KINORA_ERROR_DATA, shard.name +
                                       ": index.sqlite has other samples than were written to it; "
                                       "run kinora data index with --again");
}

}  // namespace kinora::data
