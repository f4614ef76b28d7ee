// Any bytes as a shard: errors or samples, never a crash, a loop or more memory than the limit.
#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "kinora/webdataset_reader.hpp"

namespace {

constexpr uint64_t kLimit = 1 << 16;

// Whether the reader has more to give.
bool step(kinora::WebDatasetReader& reader, bool contents) {
  try {
    const auto sample = contents ? reader.next() : reader.next_names();
    if (!sample) return false;
    uint64_t kept = 0;
    for (const auto& field : sample->fields) kept += field.bytes.size();
    if (kept > kLimit || sample->fields.empty()) std::abort();
    return true;
  } catch (const kinora::Error&) {
    if (reader.broken() && reader.next()) std::abort();  // a sample after the end
    return !reader.broken();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const kinora::RandomBytes bytes{"fuzz.tar", size, [&](uint64_t offset, void* to, uint64_t most) {
                                    const uint64_t at = std::min<uint64_t>(offset, size);
                                    const uint64_t n = std::min<uint64_t>(most, size - at);
                                    if (n > 0) std::memcpy(to, data + at, n);
                                    return n;
                                  }};
  for (const bool contents : {true, false}) {
    try {
      kinora::WebDatasetReader reader(bytes, {kLimit, false});
      for (size_t n = 0; step(reader, contents); ++n)
        if (n > size / 512 && reader.seekable()) std::abort();  // more samples than there are blocks
    } catch (const kinora::Error&) {
      continue;  // not an archive
    }
  }
  return 0;
}
