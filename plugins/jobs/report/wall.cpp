// The wall of moving previews at the head of the page.
#include <algorithm>

#include "plugins/jobs/data/webp.hpp"
#include "plugins/jobs/report/left_out.hpp"
#include "plugins/jobs/report/page.hpp"

namespace kinora::core::report {
namespace {

constexpr size_t kMostPreviews = 36;
constexpr uint64_t kLargestWall = uint64_t{12} << 20;

// The kept clips that a later job left out, or the others.
std::vector<const Item*> kept_of(const Curation& curation, const std::set<std::string>& left_out,
                                 bool is_left_out) {
  std::vector<const Item*> out;
  for (const auto& video : curation.videos)
    for (const auto& clip : video.clips)
      if (clip.end == "kept" && left_out.contains(clip.key) == is_left_out) out.push_back(&clip);
  return out;
}

}  // namespace

json wall_of(Pictures& pictures, const JobRecord& job, const Curation& curation,
             const std::set<std::string>& left_out) {
  uint64_t bytes = 0;
  json out = json::array();
  for (const bool is_left_out : {false, true}) {
    const auto kept = kept_of(curation, left_out, is_left_out);
    const size_t count = std::min(kept.size(), kMostPreviews - out.size());
    for (size_t i = 0; i < count; ++i) {
      const Item& clip = *kept[i * kept.size() / count];
      const auto file = preview_of(job, clip.key);
      const auto shape = file ? webp_preview(*file) : std::nullopt;
      if (!shape || (bytes += file->size()) > kLargestWall) continue;
      json preview = pictures.media.webp(*file), still = pictures.media.webp(shape->still);
      if (!preview.contains("uri") || !still.contains("uri")) return out;  // the page is full
      out.push_back({{"key", clip.key},
                     {"uri", std::move(preview["uri"])},
                     {"still", std::move(still["uri"])},
                     {"is_left_out", is_left_out},
                     {"width", shape->width},
                     {"height", shape->height}});
    }
  }
  return out;
}

}  // namespace kinora::core::report
