// One picture of the contact sheet: a shot, or a clip that is in no known shot.
#pragma once
#include "plugins/jobs/report/parts.hpp"

namespace kinora::core::report {

constexpr int kStillWidth = 360;  // pixels: sharp on a display with two dots per pixel

struct Tile {
  int number = 0;               // of the shot, from 1; 0: it is a clip
  int64_t first = 0, last = 0;  // frames [first, last) of the video
  std::optional<double> score;
  std::vector<const Item*> clips;

  const Item* kept() const;  // the first kept clip; null: none
};

std::vector<Tile> tiles_of(const Film&);

// The height, at kStillWidth, that keeps the video's aspect ratio within the limits of a tile.
int still_height(const Film&, const Tile&);

// A frame from the middle of the tile, read from its clip if it has one, since clips are short, else from the
// video. In a long clip the frame is within the first seconds, as a frame costs decoding all frames before
// it.
Still still_of(Page&, const JobRecord&, const Film&, const Tile&, int height);

}  // namespace kinora::core::report
