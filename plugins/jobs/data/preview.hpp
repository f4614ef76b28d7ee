// kinora data preview: a contact sheet of some samples, as one HTML file that needs no network.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "plugins/jobs/data/media.hpp"
#include "plugins/jobs/data/problem.hpp"
#include "plugins/jobs/data/shards.hpp"

namespace kinora::data {

// One sample of the sheet. All text may be a stranger's.
struct Card {
  std::string key, shard, field;  // field: of the medium; empty: the sample has none
  uint64_t bytes = 0;             // of the sample
  std::string caption;
  Picture picture;      // without one of its own, of a sample whose preview is shown
  std::string preview;  // a moving preview that the sample has, WebP; empty: the picture is shown
  std::string still;    // its first frame
};

// Makes the picture of a medium.
using MakePicture =
    std::function<Picture(const std::string& key, const std::string& field, std::vector<uint8_t> bytes)>;

// The first samples of shards that are spread over the folder, `limit` in all. problem: receives damage of shards
// and broken JSON among them. Throws Error.
std::vector<Card> cards_of(const DataFolder& folder, uint64_t limit, const MakePicture& make,
                           const OnProblem& problem);

// The page. Previews stand still if the reader asks for that, or wants no motion. It has no scripts, and its security
// policy allows pictures inside the file alone.
std::string preview_page(const DataFolder& folder, const std::vector<Card>& cards);

// Text of a stranger inside HTML, also in an attribute in quotes.
std::string escaped(std::string_view text);

}  // namespace kinora::data
