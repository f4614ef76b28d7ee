// Any bytes as model.safetensors.index.json next to two real shards: readable tensors, or an error
// that names the index.
#include <cstdlib>

#include "host/weights/safetensors.hpp"
#include "tests/fuzz/files.hpp"

namespace {

namespace core = kinora::core;

const kinora::fuzz::Folder& folder() {
  static const kinora::fuzz::Folder made;
  static const bool filled = [] {
    const std::string bytes(8, 'x');
    for (const std::string name : {"a", "b"}) {
      core::SafeTensor t{name, core::SafeDtype::f32, {2}, std::as_bytes(std::span(bytes))};
      if (!core::write_safetensors(made.path() / ("model-" + name + ".safetensors"), {t})) std::abort();
    }
    return true;
  }();
  static_cast<void>(filled);
  return made;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto index = folder().write("model.safetensors.index.json", data, size);
  const auto opened = core::Safetensors::open(index);
  if (!opened) {
    if (opened.failure().message.find(folder().path().string()) == std::string::npos) std::abort();
    return 0;
  }
  for (const auto& t : opened->tensors())
    if ((t.name != "a" && t.name != "b") || t.bytes.size() != 8) std::abort();
  return 0;
}
