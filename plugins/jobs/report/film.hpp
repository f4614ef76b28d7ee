// The videos of a curate job, their shots, and the clips made from each, read from items.jsonl.
#pragma once
#include <cstdint>
#include <deque>

#include "plugins/jobs/report/record.hpp"

namespace kinora::core::report {

// An input or a clip with its outcome.
struct Item {
  std::string key, parent, end, stage, reason, caption, url;
  std::string damaged;            // what is broken in an input's media, whatever its outcome
  bool consumed = false;          // cut into clips
  std::optional<double> score;    // score of a filtered sample
  json bound;                     // the bound that it violated: ["at most", 0.33]; null: unknown
  int64_t first = -1, last = -1;  // frames [first, last) of the video; -1: unknown
  int width = 0, height = 0;
};

struct Shot {
  int64_t first = 0, last = 0;  // frames [first, last)
  std::optional<double> score;  // at its first frame; nothing for the start of the video
  std::vector<const Item*> clips;
};

struct Film {
  Item item;
  double fps = 0;
  int64_t frames = 0;
  std::vector<double> scores;  // one per frame
  std::vector<Shot> shots;
  std::vector<const Item*> loose;  // clips that are in no known shot
  std::deque<Item> clips;

  double seconds(int64_t frame) const { return fps > 0 ? static_cast<double>(frame) / fps : 0; }
  int64_t clips_that(std::string_view end) const;
};

struct Curation {
  std::deque<Film> films;
  bool found = false;               // items.jsonl exists
  int64_t broken = 0;               // number of its lines that could not be read
  std::optional<double> threshold;  // of the shot detector
};

Curation read_curation(const JobRecord&);

}  // namespace kinora::core::report
