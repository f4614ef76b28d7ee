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
  WholeSamples whole;
  std::optional<Problem> damage;
  try {
    scan.emplace(RandomBytes::of_file(shard.uri));
    while (auto sample = scan->next()) {
      each(*sample);
      whole = {sample->key, whole.count + 1, sample->offset + sample->size};
      if (!pieces.add(*std::move(sample))) return;
    }
  } catch (const Error& e) {
    if (!is_damage(e)) throw;
    damage = damage_of_shard(shard, whole, scan ? scan->end() : 0, e.what());
  }
  end(damage ? whole.end : scan->end(), !damage);
  pieces.flush(std::move(damage));
}

// " and 'KEY', which may lack fields, 3 behind it from byte 9216 on": of the samples from byte `from` on those that can
// be found. The one that begins before the damage at `offset` is not behind it.
std::string others_text(const Shard& shard, uint64_t from, uint64_t offset) {
  try {
    auto found = samples_behind(RandomBytes::of_file(shard.uri), from);
    std::string out;
    if (!found.empty() && found[0].offset < offset) {
      out = fmt::format(" and '{}', which may lack fields", found[0].key);
      found.erase(found.begin());
    }
    return found.empty() ? out
                         : out + fmt::format(", {} behind it from byte {} on", found.size(), found[0].offset);
  } catch (const Error&) {
    return "";  // the storage fails: the damage is what is said
  }
}

}  // namespace

Problem damage_of_shard(const Shard& shard, const WholeSamples& before, uint64_t offset,
                        std::string_view what) {
  const std::string place = shard.uri + ": ";
  if (what.starts_with(place)) what.remove_prefix(place.size());
  std::string text(what);
  if (offset > 0)
    text += fmt::format(" ({} before it{}; the file has {} bytes)",
                        core::counted(static_cast<int64_t>(before.count), "whole sample", "whole samples"),
                        others_text(shard, before.end, offset), shard.size);
  return {shard.name, before.last.empty() ? "" : "after '" + before.last + "'", std::min(offset, shard.size),
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
    push({{}, damage_of_shard(shard, {}, 0, e.what())});
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
