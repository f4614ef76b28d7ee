#include <algorithm>
#include <cmath>

#include "plugins/jobs/report/numbers.hpp"
#include "plugins/jobs/report/page.hpp"

namespace kinora::core::report {
namespace {

constexpr size_t kMostFilms = 12, kMostTiles = 96, kMostEndings = 3, kScoreColumns = 600;
constexpr int kStillWidth = 360;        // pixels: sharp on a display with two dots per pixel
constexpr int64_t kDeepestFrame = 240;  // of a clip: a frame costs decoding all frames before it

// One picture of the contact sheet: a shot, or a clip that is in no known shot.
struct Tile {
  int64_t first = 0, last = 0;  // frames [first, last) of the video
  const std::vector<const Item*>& clips;

  const Item* kept() const {
    for (const Item* clip : clips)
      if (clip->end == "kept") return clip;
    return nullptr;
  }
};

// The height, at kStillWidth, that keeps the video's aspect ratio within the limits of a tile.
int still_height(const Film& film, const Tile& tile) {
  const Item& shape = tile.clips.empty() || tile.clips[0]->width == 0 ? film.item : *tile.clips[0];
  const double aspect =
      shape.width > 0 && shape.height > 0 ? static_cast<double>(shape.width) / shape.height : 16.0 / 9;
  return 2 * static_cast<int>(std::lround(kStillWidth / std::clamp(aspect, 0.5, 3.6) / 2));
}

// A frame from the middle of the tile, read from its clip if it has one, since clips are short, else from the
// video.
Still still_of(Pictures& pictures, const JobRecord& job, const Film& film, const Tile& tile, int height) {
  if (const Item* clip = tile.kept()) {
    const auto file = job.folder / "data" / (clip->key + ".mp4");
    const int64_t frame = std::clamp<int64_t>((clip->last - clip->first) / 2, 0, kDeepestFrame);
    std::error_code error;
    // The key must be a plain file name, so that it cannot lead out of the folder.
    if (clip->key.find('/') == std::string::npos && std::filesystem::exists(file, error))
      if (Still still = pictures.still({file.string(), frame, height, kStillWidth}); !still.jpeg.empty())
        return still;
  }
  return pictures.still({film.item.url, tile.first + (tile.last - tile.first) / 2, height, kStillWidth});
}

// Parts of a long shot often have the same outcome; each distinct one appears once.
json endings_of(const Tile& tile) {
  json out = json::array();
  for (const Item* clip : tile.clips) {
    json ending = ending_of(*clip);
    ending["caption"] = clip->caption;
    const auto same = [&](const json& other) {
      return other["end"] == ending["end"] && other["caption"] == ending["caption"] &&
             other["reason"] == ending["reason"];
    };
    if (std::none_of(out.begin(), out.end(), same) && out.size() < kMostEndings)
      out.push_back(std::move(ending));
  }
  return out;
}

json tile_data(Pictures& pictures, const JobRecord& job, const Film& film, const Tile& tile) {
  const int height = still_height(film, tile);
  const Still still = still_of(pictures, job, film, tile, height);
  json image = still.jpeg.empty() ? json{{"reason", still.reason}} : pictures.media.jpeg(still.jpeg);
  image["width"] = kStillWidth;
  image["height"] = height;
  return {{"first", tile.first},        {"last", tile.last},           {"kept", tile.kept() != nullptr},
          {"clips", tile.clips.size()}, {"endings", endings_of(tile)}, {"image", std::move(image)}};
}

// Shots come first, then clips in no known shot.
json tiles_of(Pictures& pictures, const JobRecord& job, const Film& film) {
  json out = json::array();
  const size_t all = std::min(kMostTiles, film.shots.size() + film.loose.size());
  for (size_t i = 0; i < all; ++i) {
    if (i < film.shots.size()) {
      const Shot& shot = film.shots[i];
      out.push_back(tile_data(pictures, job, film, {shot.first, shot.last, shot.clips}));
      out.back()["shot"] = i;
    } else {
      const std::vector<const Item*> clips{film.loose[i - film.shots.size()]};
      const Item& clip = *clips[0];
      out.push_back(tile_data(pictures, job, film,
                              {std::max<int64_t>(clip.first, 0), std::max<int64_t>(clip.last, 0), clips}));
      out.back()["key"] = clip.key;
    }
  }
  return out;
}

// Outcome of a shot: "kept", "filtered", "failed" or "none".
const char* end_of(const Shot& shot) {
  for (const char* end : {"kept", "failed", "filtered"})
    for (const Item* clip : shot.clips)
      if (clip->end == end) return end;
  return "none";
}

json film_data(Pictures& pictures, const JobRecord& job, const Film& film) {
  const size_t tiles = film.shots.size() + film.loose.size();
  json out{{"key", film.item.key},
           {"ending", ending_of(film.item)},
           {"damaged", film.item.damaged},
           {"is_cut", film.item.consumed || film.item.end == "kept"},
           {"file", std::filesystem::path(film.item.url).filename().string()},
           {"width", film.item.width},
           {"height", film.item.height},
           {"fps", film.fps},
           {"frames", film.frames},
           {"scores", peaks(film.scores, kScoreColumns)},
           {"shots", json::array()},
           {"tiles", tiles_of(pictures, job, film)},
           {"more_tiles", tiles - std::min(tiles, kMostTiles)}};
  for (const auto& shot : film.shots)
    out["shots"].push_back(
        {{"first", shot.first}, {"last", shot.last}, {"end", end_of(shot)}, {"score", or_null(shot.score)}});
  return out;
}

}  // namespace

json ending_of(const Item& item) {
  return {{"end", item.end},
          {"stage", item.stage},
          {"reason", item.reason},
          {"score", or_null(item.score)},
          {"bound", item.bound}};
}

// Videos with shots or clips come first.
json films_of(Pictures& pictures, const JobRecord& job, const Curation& curation) {
  std::vector<const Film*> films;
  for (const auto& film : curation.films) films.push_back(&film);
  std::stable_partition(films.begin(), films.end(),
                        [](const Film* f) { return !f->shots.empty() || !f->clips.empty(); });
  const size_t shown = std::min(films.size(), kMostFilms);
  json out{{"found", curation.found},
           {"detector", curation.detector.name},
           {"threshold", or_null(curation.detector.threshold)},
           {"list", json::array()},
           {"more", films.size() - shown}};
  for (size_t i = 0; i < shown; ++i) out["list"].push_back(film_data(pictures, job, *films[i]));
  return out;
}

}  // namespace kinora::core::report
