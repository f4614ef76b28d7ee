// Any bytes as a manifest of videos, JSON lines or CSV: inputs that can be used and written, or an error with
// its place.
#include <cstdlib>

#include "core/io/wildcard.hpp"
#include "kinora/error.hpp"
#include "plugins/jobs/curation/items.hpp"
#include "plugins/jobs/curation/manifest.hpp"

namespace {

namespace core = kinora::core;

void take(const core::Input& input) {
  if (input.url.empty()) std::abort();
  if (!input.error.empty() && input.error.find("videos: ") != 0) std::abort();
  core::unread_line(input, "", input.error).dump(-1, ' ', false, core::json::error_handler_t::replace);
  input.identity();
  const auto pattern = core::split_pattern(input.url);
  if (pattern.folder + pattern.rest != input.url) std::abort();
  core::matches(input.url.substr(0, 200), input.url.substr(0, 200));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  for (const auto read : {core::read_jsonl_manifest, core::read_csv_manifest}) try {
      read(text, "videos", take);
    } catch (const kinora::Error& e) {
      if (std::string_view(e.what()).find("videos: ") != 0) std::abort();
    }
  return 0;
}
