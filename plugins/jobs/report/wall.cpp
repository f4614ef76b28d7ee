// The wall of moving previews at the head of the page.
#include <algorithm>

#include "plugins/jobs/data/webp.hpp"
#include "plugins/jobs/report/page.hpp"

namespace kinora::core::report {
namespace {

constexpr size_t kMostPreviews = 36;
constexpr uint64_t kLargestPreview = 1 << 20, kLargestWall = uint64_t{12} << 20;

std::vector<const Item*> kept_of(const Curation& curation) {
  std::vector<const Item*> out;
  for (const auto& video : curation.videos)
    for (const auto& clip : video.clips)
      if (clip.end == "kept") out.push_back(&clip);
  return out;
}

}  // namespace

json wall_of(Pictures& pictures, const JobRecord& job, const Curation& curation) {
  const auto kept = kept_of(curation);
  const size_t count = std::min(kept.size(), kMostPreviews);
  uint64_t bytes = 0;
  json out = json::array();
  for (size_t i = 0; i < count; ++i) {
    const Item& clip = *kept[i * kept.size() / count];
    // The key must be a plain file name, so that it cannot lead out of the folder.
    if (clip.key.find('/') != std::string::npos) continue;
    const auto file = read_file(job.folder / "data" / (clip.key + ".preview.webp"), kLargestPreview);
    const auto shape = file ? webp_preview(*file) : std::nullopt;
    if (!shape || (bytes += file->size()) > kLargestWall) continue;
    json preview = pictures.media.webp(*file), still = pictures.media.webp(shape->still);
    if (!preview.contains("uri") || !still.contains("uri")) break;  // the page is full
    out.push_back({{"key", clip.key},
                   {"uri", std::move(preview["uri"])},
                   {"still", std::move(still["uri"])},
                   {"width", shape->width},
                   {"height", shape->height}});
  }
  return out;
}

}  // namespace kinora::core::report
