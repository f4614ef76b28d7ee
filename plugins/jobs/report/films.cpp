// The contact sheet: every shot of every video, and its outcome.
#include <algorithm>

#include <fmt/format.h>

#include "plugins/jobs/report/sections.hpp"
#include "plugins/jobs/report/tile.hpp"
#include "plugins/jobs/report/words.hpp"

namespace kinora::core::report {
namespace {

constexpr size_t kMostFilms = 12, kMostShots = 96;

// "filter.black: 1, at most 0.33 is kept".
std::string rule_text(const Item& item) {
  std::string out = item.reason;
  if (item.score) out += ": " + number(*item.score);
  if (item.score && !item.bound.empty()) out += ", " + item.bound + " is kept";
  return out;
}

void write_ending(Html& out, const Film& film, const Item& clip) {
  if (clip.end == "kept") {
    out.leaf("q", {{"class", "caption"}}, clip.caption.empty() ? "(no caption)" : clip.caption);
  } else if (clip.end == "filtered") {
    out.leaf("span", {{"class", "why filtered"}}, "Filtered by " + rule_text(clip));
  } else {
    out.leaf("span", {{"class", "why failed"}},
             "Failed in " + (clip.stage.empty() ? film.item.key : clip.stage) + ": " + clip.reason);
  }
}

// Writes the outcomes of the tile's clips in words.
void write_endings(Html& out, const Film& film, const Tile& tile) {
  if (tile.clips.empty()) {
    const bool cut = film.item.consumed || film.item.end == "kept";
    out.leaf("span", {{"class", "why dim"}},
             cut ? "No clip was made from it" : "No clip: the video itself was " + film.item.end);
    return;
  }
  // Parts of a long shot often have the same outcome; each distinct one is written once.
  std::vector<const Item*> told;
  for (const Item* clip : tile.clips) {
    const auto same = [&](const Item* t) {
      return t->end == clip->end && t->caption == clip->caption && t->reason == clip->reason;
    };
    if (std::any_of(told.begin(), told.end(), same) || told.size() == 3) continue;
    told.push_back(clip);
    write_ending(out, film, *clip);
  }
  if (tile.clips.size() > 1)
    out.leaf("span", {{"class", "dim"}},
             "Cut into " + counted(static_cast<int64_t>(tile.clips.size()), "clip"));
}

void write_tile(Page& page, const JobRecord& job, const Film& film, const Tile& tile) {
  const int width = kStillWidth, height = still_height(film, tile);
  const Still still = still_of(page, job, film, tile, height);
  const Embedded image = still.jpeg.empty() ? Embedded{"", still.reason, 0, 0} : page.media.jpeg(still.jpeg);
  const std::string name =
      tile.number > 0 ? fmt::format("shot {}", tile.number) : "clip " + tile.clips[0]->key;
  const Item* kept = tile.kept();
  auto& out = page.out;
  out.in("li", {{"class", kept ? "kept" : "lost"}}, [&] {
    out.in("figure", {}, [&] {
      picture(out, image, {fmt::format("A frame of {} of {}", name, film.item.key), width, height});
      out.in("figcaption", {}, [&] {
        out.in("span", {{"class", "when"}}, [&] {
          out.leaf("b", {}, timecode(film.seconds(tile.first)));
          out.leaf("span", {}, duration(film.seconds(tile.last - tile.first)));
        });
        write_endings(out, film, tile);
        const std::string number_text =
            tile.number > 0 ? fmt::format("Shot {}", tile.number) : tile.clips[0]->key;
        out.leaf("span", {{"class", "dim"}},
                 tile.score         ? fmt::format("{} · cut at score {:.1f}", number_text, *tile.score)
                 : tile.number == 1 ? number_text + " · start of the video"
                                    : number_text);
      });
    });
  });
}

std::string film_facts(const Film& film) {
  std::string out = std::filesystem::path(film.item.url).filename().string();
  const auto add = [&](const std::string& text) { out += (out.empty() ? "" : " · ") + text; };
  if (film.item.width > 0) add(fmt::format("{} × {}", film.item.width, film.item.height));
  if (film.fps > 0) add(number(film.fps, 5) + "\u00A0fps");
  if (film.frames > 0) add(counted(film.frames, "frame"));
  if (film.frames > 0 && film.fps > 0) add(timecode(film.seconds(film.frames)));
  if (!film.shots.empty()) add(counted(static_cast<int64_t>(film.shots.size()), "shot"));
  return out;
}

void write_film(Page& page, const JobRecord& job, const Film& film, std::optional<double> threshold) {
  auto& out = page.out;
  out.in("article", {{"class", "film"}}, [&] {
    out.leaf("h3", {}, film.item.key);
    out.leaf("p", {{"class", "dim"}}, film_facts(film));
    if (film.item.end == "failed")
      out.leaf("p", {{"class", "note failed"}},
               "The video failed in " + film.item.stage + ": " + film.item.reason);
    if (film.item.end == "filtered")
      out.leaf("p", {{"class", "note filtered"}},
               "The video was filtered by " + rule_text(film.item));
    if (!film.item.damaged.empty() && film.item.end != "failed")
      out.leaf("p", {{"class", "note failed"}}, "The video is damaged: " + film.item.damaged);
    write_timeline(out, film, threshold);
    const auto tiles = tiles_of(film);
    if (tiles.empty()) return;
    out.in("ol", {{"class", "shots"}}, [&] {
      for (size_t i = 0; i < std::min(tiles.size(), kMostShots); ++i) write_tile(page, job, film, tiles[i]);
    });
    if (tiles.size() > kMostShots)
      note(out, counted(static_cast<int64_t>(tiles.size() - kMostShots), "more shot") +
                    " of this video: items.jsonl has all of them.");
  });
}

// Videos with shots or clips come first.
void write_sheet(Page& page, const JobRecord& job, const Curation& curation) {
  std::vector<const Film*> films;
  for (const auto& film : curation.films) films.push_back(&film);
  std::stable_partition(films.begin(), films.end(),
                        [](const Film* f) { return !f->shots.empty() || !f->clips.empty(); });
  for (size_t i = 0; i < std::min(films.size(), kMostFilms); ++i)
    write_film(page, job, *films[i], curation.threshold);
  if (films.size() > kMostFilms)
    note(page.out, counted(static_cast<int64_t>(films.size() - kMostFilms), "more video") +
                       ": they are counted below, and items.jsonl has all of them.");
}

}  // namespace

void write_films(Page& page) {
  if (page.run.of_kind("curate").empty()) return;
  section(page, "films", "Source videos and their shots", [&] {
    for (const JobRecord* job : page.run.of_kind("curate")) {
      if (!job_heading(page, *job)) continue;
      const Curation& curation = page.curations[job];
      if (!curation.found)
        note(page.out, "There is no items.jsonl in the folder of job “" + job->name + "”.");
      write_sheet(page, *job, curation);
    }
  });
}

}  // namespace kinora::core::report
