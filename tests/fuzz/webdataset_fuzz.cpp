// Any bytes as a shard: an error or samples, never a crash, a loop or more memory than the limit.
#include <cstdlib>

#include "plugins/jobs/curation/webdataset.hpp"
#include "tests/support/bytes_in_memory.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using kinora::core::WebDatasetReader;
  constexpr uint64_t kLimit = 1 << 16;
  const auto source = kinora::test::bytes_in_memory("fuzz.tar", {data, size});
  for (const bool contents : {true, false}) {
    auto reader = WebDatasetReader::over(source, {kLimit, false});
    if (!reader) continue;
    for (size_t n = 0;; ++n) {
      if (n > size / 512 && reader->seekable()) std::abort();  // more samples than there are blocks
      const auto sample = contents ? reader->next() : reader->next_names();
      if (!sample || !*sample) break;
      uint64_t bytes = 0;
      for (const auto& field : (*sample)->fields) bytes += field.bytes.size();
      if (bytes > kLimit || (*sample)->fields.empty()) std::abort();
    }
  }
  return 0;
}
