#include "plugins/jobs/report/tile.hpp"

#include <algorithm>
#include <cmath>

namespace kinora::core::report {
namespace {

constexpr int64_t kDeepest = 240;

}  // namespace

const Item* Tile::kept() const {
  for (const Item* clip : clips)
    if (clip->end == "kept") return clip;
  return nullptr;
}

std::vector<Tile> tiles_of(const Film& film) {
  std::vector<Tile> out;
  for (const auto& shot : film.shots)
    out.push_back({static_cast<int>(out.size()) + 1, shot.first, shot.last, shot.score, shot.clips});
  for (const Item* clip : film.loose)
    out.push_back({0, std::max<int64_t>(clip->first, 0), std::max<int64_t>(clip->last, 0), {}, {clip}});
  return out;
}

int still_height(const Film& film, const Tile& tile) {
  const Item& shape = tile.clips.empty() || tile.clips[0]->width == 0 ? film.item : *tile.clips[0];
  const double aspect =
      shape.width > 0 && shape.height > 0 ? static_cast<double>(shape.width) / shape.height : 16.0 / 9;
  return 2 * static_cast<int>(std::lround(kStillWidth / std::clamp(aspect, 0.75, 2.4) / 2));
}

Still still_of(Page& page, const JobRecord& job, const Film& film, const Tile& tile, int height) {
  if (const Item* clip = tile.kept()) {
    const auto file = job.folder / "data" / (clip->key + ".mp4");
    const int64_t frame = std::clamp<int64_t>((clip->last - clip->first) / 2, 0, kDeepest);
    std::error_code error;
    // The key must be a plain file name, so that it cannot lead out of the folder.
    if (clip->key.find('/') == std::string::npos && std::filesystem::exists(file, error))
      if (Still still = page.still({file.string(), frame, height, kStillWidth}); !still.jpeg.empty())
        return still;
  }
  return page.still({film.item.url, tile.first + (tile.last - tile.first) / 2, height, kStillWidth});
}

}  // namespace kinora::core::report
