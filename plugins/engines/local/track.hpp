// What the engine knows of a sample: where it is, and how it ends.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kinora/abi/engine.h"
#include "ledger.hpp"
#include "place.hpp"

namespace kinora::local {

struct End {
  uint32_t end = KINORA_KEPT;
  const char* stage = nullptr;
  std::optional<std::string> reason;
  double score = 0;
  int32_t status = KINORA_OK;
  bool consumed = false;
};

// An input, or a sample that a stage made, from its first appearance until its one end has been told. It is
// told after the ends of all that was made of it (open == 0), so that a run which breaks off never forgets a
// clip of a film that it called done.
struct Track {
  std::vector<std::shared_ptr<Track>> parents;  // what it was made of (parents.cpp); none: an input
  std::string input = {};                       // the key of an input
  // Samples made of this one whose end has not been told, and 1 while a stage works on it: it may make more.
  uint32_t open = 0;
  std::optional<End> end;
  int32_t made = 0;              // kinora_outcome.made
  bool settled = false;          // on its way to be told
  std::optional<Sample> sample;  // for the telling
  Weight weight;
};

// A sample on its way: in a queue or in a stage.
struct Item {
  Sample sample;
  Weight weight;
  Place place;
  std::shared_ptr<Track> track;
  // A process died that had kept it back, or that was at work on it while it kept others back: it is tried again in one of
  // its own. What it was made into until then has gone on, and is not told twice.
  bool alone = false;
  uint64_t emitted = 0;
  std::vector<std::string> told{};
};

// Whether it is the input of this key, or was made of that.
bool is_of(const Track& track, std::string_view input);

// The key and the fields that are small or text: what is left of a sample that waits for others, so that a film's bytes do not
// wait too.
Sample slim(const Sample& sample);

// An input that its stage keeps back (kinora_emit.hold).
struct Held {
  std::shared_ptr<Track> track;
  Place place;
  uint64_t emitted;
  Sample sample;  // slim, unless it can be tried again
  Weight weight;  // in the ledger
  Weight beside;  // in that of what does not count any more
  bool whole = false;
  std::vector<std::string> told{};
};

}  // namespace kinora::local
