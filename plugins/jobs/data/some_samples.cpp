#include "plugins/jobs/data/some_samples.hpp"

#include <algorithm>

namespace kinora::data {

std::vector<uint8_t> read_part(const RandomBytes& shard, const energon::StoredSample::Part& part) {
  std::vector<uint8_t> out(std::min(part.size, shard.size - std::min(part.offset, shard.size)));
  uint64_t got = 0;
  while (got < out.size()) {
    const uint64_t n = shard.read(part.offset + got, out.data() + got, out.size() - got);
    if (n == 0) throw Error(KINORA_ERROR_DATA, shard.name + ": the file shrank while it was read");
    got += n;
  }
  return out;
}

void some_samples(
    const DataFolder& folder, uint64_t most,
    const std::function<void(const Shard&, const RandomBytes&, const energon::StoredSample&)>& each,
    const OnProblem& damage) {
  const uint64_t shards = std::min<uint64_t>(most, folder.shards.size());
  for (uint64_t i = 0; i < shards; ++i) {
    const Shard& shard = folder.shards[i * folder.shards.size() / shards];
    const uint64_t wanted = most * (i + 1) / shards - most * i / shards;
    std::optional<energon::ShardScan> scan;
    WholeSamples taken;
    try {
      const RandomBytes bytes = RandomBytes::of_file(shard.uri);
      scan.emplace(bytes);
      while (taken.count < wanted) {
        const auto sample = scan->next();
        if (!sample) break;
        taken = {sample->key, taken.count + 1, sample->offset + sample->size};
        each(shard, bytes, *sample);
      }
    } catch (const Error& e) {
      if (!is_of_one_shard(e)) throw;
      damage(damage_of_shard(shard, taken, scan ? scan->end() : 0, e.what()));
    }
  }
}

}  // namespace kinora::data
