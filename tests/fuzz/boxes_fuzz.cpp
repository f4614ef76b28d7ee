// Any bytes as the parts of containers and H.264 that the plugin parses itself, without FFmpeg: durations,
// parameter sets, units, packets. Plausible numbers, parameter sets that survive writing and reading, or an
// error.
#include <cstdlib>

#include "plugins/stages/video/media/byte_source.hpp"
#include "plugins/stages/video/media/packet_index.hpp"
#include "plugins/stages/video/media/probe.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace kinora::video;
  const std::span bytes(data, size);
  MemorySource source{bytes};
  if (declared_size(source) < 0) std::abort();
  std::vector<std::span<const uint8_t>> units;
  split_units(bytes, units);
  for (const auto& unit : units)
    if (unit.size() > size ||
        (!unit.empty() && (unit.data() < data || unit.data() + unit.size() > data + size)))
      std::abort();
  ParameterSets sets;
  if (read_avcc(bytes, sets)) {
    const int id = free_id(sets);
    if (id < 0 || id > 31) std::abort();
    if (!sets.sequence.empty() && !sets.picture.empty()) {
      ParameterSets again;
      if (!read_avcc(write_avcc(sets), again) || again.sequence != sets.sequence ||
          again.picture != sets.picture)
        std::abort();
    }
  }
  try {
    MemorySource video{bytes};
    if (const auto index = index_packets(video, "input", 48))
      for (const auto& gop : index->gops)
        if (gop.first < 0 || gop.end < gop.first || gop.end > 48) std::abort();
  } catch (const MediaError& error) {
    if (*error.what() == 0) std::abort();
  }
  return 0;
}
