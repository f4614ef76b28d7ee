#include "plugins/jobs/data/scan_shard.hpp"

#include "core/base/cancel.hpp"
#include "core/base/status.hpp"
#include "plugins/jobs/data/part_file.hpp"

namespace kinora::data {
namespace {

void stop_if_cancelled() {
  if (core::cancelled()) throw Error(KINORA_ERROR_CANCELLED, "interrupted; run it again to continue");
}

}  // namespace

bool Pieces::add(energon::StoredSample sample) {
  constexpr size_t kMostSamples = 1024, kMostParts = 4096;
  parts_ += sample.parts.size();
  piece_.samples.push_back(std::move(sample));
  return (piece_.samples.size() < kMostSamples && parts_ < kMostParts) || flush();
}

bool Pieces::flush(std::optional<Problem> damage) {
  stop_if_cancelled();
  piece_.damage = std::move(damage);
  parts_ = 0;
  return push_(std::exchange(piece_, {}));
}

void scan_shard(const DataFolder& folder, const Shard& shard, bool keep, const PushPiece& push) {
  Pieces pieces(push);
  energon::TarIndex index;
  std::optional<PartWriter> kept;
  if (keep) kept.emplace(folder, shard);
  std::optional<energon::ShardScan> scan;
  std::string last;  // key of the last sample
  uint64_t end = 0;  // of the last sample
  std::optional<Problem> damage;
  try {
    scan.emplace(RandomBytes::of_file(shard.uri));
    while (auto sample = scan->next()) {
      index.add(*sample);
      if (kept) kept->add(*sample);
      last = sample->key;
      end = sample->offset + sample->size;
      if (!pieces.add(*std::move(sample))) return;
    }
  } catch (const Error& e) {
    if (e.code() != KINORA_ERROR_DATA) throw;
    const std::string_view what = e.what();
    const std::string before = shard.uri + ": ";
    damage = Problem{shard.name, last.empty() ? "" : "after '" + last + "'", scan ? scan->end() : 0,
                     std::string(what.starts_with(before) ? what.substr(before.size()) : what)};
  }
  if (!damage) end = scan->end();
  write_small(shard.uri + ".idx", index.finish(end));
  if (kept && !damage) kept->commit(end);
  pieces.flush(std::move(damage));
}

bool scan_kept(const DataFolder& folder, const Shard& shard, const PushPiece& push) {
  auto reader = PartReader::open(folder, shard);
  if (!reader) return false;
  Pieces pieces(push);
  while (auto sample = reader->next())
    if (!pieces.add(*std::move(sample))) return true;
  pieces.flush();
  return true;
}

}  // namespace kinora::data
