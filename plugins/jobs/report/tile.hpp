// One picture of the contact sheet: a shot, or a clip that lies in no known shot.
#pragma once
#include "plugins/jobs/report/parts.hpp"

namespace kinora::core::report {

constexpr int kStillWidth = 360;  // pixels: sharp on a display of two dots a pixel

struct Tile {
  int number = 0;               // of the shot, from 1; 0: it is a clip
  int64_t first = 0, last = 0;  // frames [first, last) of the film
  std::optional<double> score;
  std::vector<const Item*> clips;

  const Item* kept() const;  // the first clip that was kept; null: none was
};

std::vector<Tile> tiles_of(const Film&);

// The height, at kStillWidth, that keeps the film's shape within what a tile can show.
int still_height(const Film&, const Tile&);

// A frame from the tile's middle: of its clip where it has one, which is short, else of the film. Of a long
// clip one from its first seconds, as a frame costs decoding all before it.
Still still_of(Page&, const JobRecord&, const Film&, const Tile&, int height);

}  // namespace kinora::core::report
