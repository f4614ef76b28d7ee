// Any bytes as a request's address and range: nothing longer than what was given, and no range outside a file.
#include <cstdlib>
#include <string_view>

#include "apps/web/server.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace kinora::web;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  std::string path;
  Parameters parameters;
  if (split_target(text, path, parameters)) {
    size_t all = path.size();
    for (const auto& [name, value] : parameters) all += name.size() + value.size();
    if (all > size) std::abort();
  }
  for (const uint64_t file : {uint64_t{0}, uint64_t{1}, uint64_t{1000}, ~uint64_t{0}})
    if (const auto range = range_of(text, file);
        range && range->fits && (range->first > range->last || range->last >= file))
      std::abort();
  return 0;
}
