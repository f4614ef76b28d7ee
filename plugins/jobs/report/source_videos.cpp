#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "plugins/jobs/report/numbers.hpp"
#include "plugins/jobs/report/page.hpp"

namespace kinora::core::report {
namespace {

constexpr size_t kMostSources = 200, kMostFailed = 24, kMostEndings = 3, kScoreColumns = 600;
constexpr size_t kMostTiles = 96, kMostTilesOfAll = 480;
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
int still_height(const SourceVideo& video, const Tile& tile) {
  const Item& shape = tile.clips.empty() || tile.clips[0]->width == 0 ? video.item : *tile.clips[0];
  const double aspect =
      shape.width > 0 && shape.height > 0 ? static_cast<double>(shape.width) / shape.height : 16.0 / 9;
  return 2 * static_cast<int>(std::lround(kStillWidth / std::clamp(aspect, 0.5, 3.6) / 2));
}

// A frame from the middle of the tile, read from its clip if it has one, since clips are short, else from the
// video.
Still still_of(Pictures& pictures, const JobRecord& job, const SourceVideo& video, const Tile& tile,
               int height) {
  if (const Item* clip = tile.kept()) {
    const auto file = job.folder / "data" / (clip->key + ".mp4");
    const int64_t frame = std::clamp<int64_t>((clip->last - clip->first) / 2, 0, kDeepestFrame);
    std::error_code error;
    // The key must be a plain file name, so that it cannot lead out of the folder.
    if (clip->key.find('/') == std::string::npos && std::filesystem::exists(file, error))
      if (Still still = pictures.still({file.string(), frame, height, kStillWidth}); !still.jpeg.empty())
        return still;
  }
  return pictures.still({video.item.url, tile.first + (tile.last - tile.first) / 2, height, kStillWidth});
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

json tile_data(Pictures& pictures, const JobRecord& job, const SourceVideo& video, const Tile& tile) {
  const int height = still_height(video, tile);
  const Still still = still_of(pictures, job, video, tile, height);
  json image = still.jpeg.empty() ? json{{"reason", still.reason}} : pictures.media.jpeg(still.jpeg);
  image["width"] = kStillWidth;
  image["height"] = height;
  json out{{"first", tile.first},        {"last", tile.last},           {"kept", tile.kept() != nullptr},
           {"clips", tile.clips.size()}, {"endings", endings_of(tile)}, {"image", std::move(image)}};
  if (tile.clips.size() == 1 && tile.clips[0]->first >= 0)
    out["frames"] = {tile.clips[0]->first, tile.clips[0]->last};
  return out;
}

// Shots come first, then clips in no known shot; `most` of them.
json tiles_of(Pictures& pictures, const JobRecord& job, const SourceVideo& video, size_t most) {
  json out = json::array();
  const size_t all = std::min(most, video.shots.size() + video.loose.size());
  for (size_t i = 0; i < all; ++i) {
    if (i < video.shots.size()) {
      const Shot& shot = video.shots[i];
      out.push_back(tile_data(pictures, job, video, {shot.first, shot.last, shot.clips}));
      out.back()["shot"] = i;
      out.back()["is_fade"] = video.is_fade(shot);
    } else {
      const std::vector<const Item*> clips{video.loose[i - video.shots.size()]};
      const Item& clip = *clips[0];
      out.push_back(tile_data(pictures, job, video,
                              {std::max<int64_t>(clip.first, 0), std::max<int64_t>(clip.last, 0), clips}));
      out.back()["key"] = clip.key;
    }
  }
  return out;
}

// Outcome of a shot: "kept", "filtered", "failed" or "none"; mark_left_out() adds "later".
const char* end_of(const Shot& shot) {
  for (const char* end : {"kept", "failed", "filtered"})
    for (const Item* clip : shot.clips)
      if (clip->end == end) return end;
  return "none";
}

// The last `parts` names of a path, or all of it.
std::string end_of_path(const std::string& url, size_t parts) {
  size_t at = url.size();
  for (size_t i = 0; i < parts; ++i)
    if (at == 0 || (at = url.rfind('/', at - 1)) == std::string::npos) return url;
  return url.substr(at + 1);
}

json video_data(Pictures& pictures, const JobRecord& job, const SourceVideo& video, size_t most) {
  const size_t tiles = video.shots.size() + video.loose.size();
  json out{{"key", video.item.key},
           {"ending", ending_of(video.item)},
           {"damaged", video.item.damaged},
           {"is_cut", video.item.consumed || video.item.end == "kept"},
           {"file", end_of_path(video.item.url, 1)},
           {"width", video.item.width},
           {"height", video.item.height},
           {"fps", video.fps},
           {"frames", video.frames},
           {"fades", video.fades},
           {"scores", peaks(video.scores, kScoreColumns)},
           {"shots", json::array()},
           {"tiles", tiles_of(pictures, job, video, most)},
           {"more_tiles", tiles - std::min(tiles, most)}};
  for (const auto& shot : video.shots)
    out["shots"].push_back(
        {{"first", shot.first}, {"last", shot.last}, {"end", end_of(shot)}, {"score", or_null(shot.score)}});
  return out;
}

// Marks shots and tiles of which a later job left out every kept clip.
void mark_left_out(const SourceVideo& video, const std::set<std::string>& left_out, json& out) {
  const auto is_later = [&](const std::vector<const Item*>& clips) {
    size_t kept = 0, later = 0;
    for (const Item* clip : clips)
      if (clip->end == "kept") ++kept, later += left_out.contains(clip->key);
    return kept > 0 && kept == later;
  };
  for (size_t i = 0; i < video.shots.size(); ++i)
    if (is_later(video.shots[i].clips)) out["shots"][i]["end"] = "later";
  for (size_t i = 0; i < out["tiles"].size(); ++i)
    out["tiles"][i]["is_left_out"] =
        i < video.shots.size() ? is_later(video.shots[i].clips) : is_later({video.loose[i - video.shots.size()]});
}

}  // namespace

json ending_of(const Item& item) {
  return {{"end", item.end},       {"stage", item.stage},
          {"reason", item.reason}, {"score", or_null(item.score)},
          {"bound", item.bound},   {"of", item.of}};
}

std::map<std::string, std::string> paths_of_namesakes(const Curation& curation) {
  constexpr size_t kMostParts = 8;  // then the whole
  std::map<std::string, std::string> out;
  std::set<std::string> left;
  for (const auto& video : curation.videos)
    if (!video.item.url.empty()) left.insert(video.item.url);
  for (size_t parts = 1; !left.empty(); ++parts) {
    const auto end = [&](const std::string& url) { return parts > kMostParts ? url : end_of_path(url, parts); };
    std::map<std::string, int64_t> count;
    for (const auto& url : left) ++count[end(url)];
    std::erase_if(left, [&](const std::string& url) {
      const bool is_alone = count[end(url)] == 1;
      if (is_alone && parts > 1) out.emplace(url, end(url));
      return is_alone;
    });
  }
  return out;
}

// Videos with shots or clips come first, and of these the ones that failed or are damaged.
json source_videos_of(Pictures& pictures, const JobRecord& job, const Curation& curation,
                      const std::set<std::string>& left_out) {
  std::vector<const SourceVideo*> videos;
  json failed = json::array();
  size_t all_failed = 0, in_part = 0, failed_with_parts = 0;
  const auto has_parts = [](const SourceVideo* v) { return !v->shots.empty() || !v->clips.empty(); };
  for (const auto& video : curation.videos) {
    const bool has_failed = video.item.end == "failed";
    if (has_failed && video.clips_that("kept") > 0) ++in_part;
    if (has_failed) ++all_failed;
    if (has_failed && has_parts(&video)) ++failed_with_parts;
    if (!has_failed || has_parts(&video)) {
      videos.push_back(&video);
    } else if (failed.size() < kMostFailed) {
      failed.push_back(ending_of(video.item));
      failed.back()["key"] = video.item.key;
    }
  }
  const auto whole = std::stable_partition(videos.begin(), videos.end(), has_parts);
  std::stable_partition(videos.begin(), whole, [](const SourceVideo* v) {
    return v->item.end == "failed" || !v->item.damaged.empty();
  });
  const size_t shown = std::min(videos.size(), kMostSources);
  const size_t unlisted = all_failed - failed_with_parts - failed.size();
  json out{{"found", curation.found},
           {"detector", curation.detector.name},
           {"threshold", or_null(curation.detector.threshold)},
           {"edge_crop", curation.edge_crop},
           {"failed",
            {{"all", all_failed}, {"in_part", in_part}, {"more", unlisted}, {"list", std::move(failed)}}},
           {"list", json::array()},
           {"more", videos.size() - shown}};
  const auto paths = paths_of_namesakes(curation);
  size_t left = kMostTilesOfAll;
  for (size_t i = 0; i < shown; ++i) {
    json video = video_data(pictures, job, *videos[i], std::min(left, kMostTiles));
    left -= video["tiles"].size();
    mark_left_out(*videos[i], left_out, video);
    if (const auto path = paths.find(videos[i]->item.url); path != paths.end()) video["file"] = path->second;
    out["list"].push_back(std::move(video));
  }
  return out;
}

}  // namespace kinora::core::report
