#include "plugins/jobs/data/scan_shard.hpp"

#include <algorithm>

#include "core/base/cancel.hpp"
#include "core/base/quantity.hpp"
#include "core/base/status.hpp"
#include "kinora/webdataset_behind.hpp"
#include "plugins/jobs/data/part_file.hpp"

namespace kinora::data {
namespace {

void stop_if_cancelled() {
  if (core::cancelled()) throw Error(KINORA_ERROR_CANCELLED, "interrupted; run it again to continue");
}

// Calls each() for every sample, then end() with the end of the last one and whether the archive is whole.
template <class Each, class End>
void read_headers(const Shard& shard, const Each& each, const End& end, const PushPiece& push) {
  Pieces pieces(push);
  std::optional<energon::ShardScan> scan;
  std::string last;  // key of the last sample
  uint64_t last_end = 0, count = 0;
  std::optional<Problem> damage;
  try {
    scan.emplace(RandomBytes::of_file(shard.uri));
    while (auto sample = scan->next()) {
      each(*sample);
      last = sample->key;
      last_end = sample->offset + sample->size;
      ++count;
      if (!pieces.add(*std::move(sample))) return;
    }
  } catch (const Error& e) {
    if (!is_damage(e)) throw;
    damage = damage_of_shard(shard, last, count, scan ? scan->end() : 0, e.what());
  }
  end(damage ? last_end : scan->end(), !damage);
  pieces.flush(std::move(damage));
}

// ", 3 behind it from byte 9216 on", or "" if there are none that can be found.
std::string behind_text(const Shard& shard, uint64_t offset) {
  try {
    const auto behind = samples_behind(RandomBytes::of_file(shard.uri), offset);
    return behind.empty() ? ""
                          : fmt::format(", {} behind it from byte {} on", behind.size(), behind[0].offset);
  } catch (const Error&) {
    return "";  // the storage fails: the damage is what is said
  }
}

}  // namespace

Problem damage_of_shard(const Shard& shard, const std::string& last, uint64_t samples, uint64_t offset,
                        std::string_view what) {
  const std::string before = shard.uri + ": ";
  if (what.starts_with(before)) what.remove_prefix(before.size());
  std::string text(what);
  if (offset > 0)
    text += fmt::format(" ({} before it{}; the file has {} bytes)",
                        core::counted(static_cast<int64_t>(samples), "whole sample", "whole samples"),
                        behind_text(shard, offset), shard.size);
  return {shard.name, last.empty() ? "" : "after '" + last + "'", std::min(offset, shard.size),
          std::move(text)};
}

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

void scan_shard(const DataFolder& folder, const Shard& shard, const PushPiece& push) {
  energon::TarIndex index;
  PartWriter kept(folder, shard);
  const auto each = [&](const energon::StoredSample& sample) {
    index.add(sample);
    kept.add(sample);
  };
  const auto end = [&](uint64_t end, bool is_whole) {
    write_small(shard.uri + ".idx", index.finish(end));
    if (is_whole) kept.commit(end);
  };
  read_headers(shard, each, end, push);
}

void list_shard(const Shard& shard, const PushPiece& push) {
  try {
    read_headers(
        shard, [](const energon::StoredSample&) {}, [](uint64_t, bool) {}, push);
  } catch (const Error& e) {
    if (!is_of_one_shard(e)) throw;
    push({{}, damage_of_shard(shard, "", 0, 0, e.what())});
  }
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
