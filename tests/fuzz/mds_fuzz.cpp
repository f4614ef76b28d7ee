// Any bytes as index.json next to a real shard of two samples: samples, or an error that names the folder.
#include <cstdlib>

#include "plugins/jobs/loading/mds.hpp"
#include "tests/fuzz/files.hpp"

namespace {

namespace core = kinora::core;

const kinora::fuzz::Folder& folder() {
  static const kinora::fuzz::Folder made;
  static const bool filled = [] {
    std::string shard("\2\0\0\0\20\0\0\0\44\0\0\0\73\0\0\0", 16);  // two samples, their offsets and the end
    shard += std::string("\1\0\0\0\3\0\0\0a\7\0\0\0\0\0\0\0xyz",
                         20);  // sizes of __key__ and video, then "a", 7, "xyz"
    shard += std::string("\1\0\0\0\6\0\0\0b\7\0\0\0\0\0\0\0xyzuvw", 23);
    made.write("shard.00000.mds", reinterpret_cast<const uint8_t*>(shard.data()), shard.size());
    return true;
  }();
  static_cast<void>(filled);
  return made;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string path = folder().path().string();
  folder().write("index.json", data, size);
  try {
    const auto files = core::mds_files(path);
    if (!files) return 0;
    for (const auto& file : *files) {
      const auto shard = core::open_mds(file);
      for (uint64_t i = 0; i < shard->size(); ++i) {
        if (shard->at(i).key() != shard->key(i)) std::abort();
        shard->facts(i);
      }
    }
  } catch (const kinora::Error& e) {
    if (std::string_view(e.what()).find(path) == std::string_view::npos) std::abort();
  }
  return 0;
}
