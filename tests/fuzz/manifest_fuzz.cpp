// Any bytes as a manifest or as a plugin library: a description, or an error with its place.
#include <cstdlib>
#include <string_view>
#include <unistd.h>

#include <sys/mman.h>

#include "core/plugin/elf.hpp"
#include "core/plugin/manifest.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace kinora::core;
  const auto spec = parse_manifest({reinterpret_cast<const char*>(data), size}, "input");
  if (!spec && spec.failure().message.rfind("input:", 0) != 0)
    std::abort();  // every error has file, line and column
  static const int file = memfd_create("fuzz", 0);
  static const std::string name = "/proc/self/fd/" + std::to_string(file);
  if (ftruncate(file, 0) != 0 || pwrite(file, data, size, 0) != static_cast<ssize_t>(size)) std::abort();
  const auto inside = read_embedded_manifest(name);
  if (!inside && inside.failure().message.empty()) std::abort();
  const auto needs = read_needs(name);
  if (!needs && needs.failure().message.empty()) std::abort();
  return 0;
}
