// The engine's record of a sample: where it is, and its outcome.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "kinora/abi/engine.h"
#include "ledger.hpp"
#include "place.hpp"

namespace kinora::local {

struct End {
  uint32_t end = KINORA_KEPT;
  const char* stage = nullptr;  // null: it left the pipeline
  std::optional<std::string> reason;
  double score = 0;
  int32_t status = KINORA_OK;
  bool consumed = false;

  static End consumed_by(const char* stage) { return {KINORA_KEPT, stage, std::nullopt, 0, KINORA_OK, true}; }
  static End filtered(const char* stage, std::string rule, double score) { return {KINORA_FILTERED, stage, std::move(rule), score}; }
  static End failed(const char* stage, int32_t status, std::string message) {
    return {KINORA_FAILED_AT, stage, std::move(message), 0, status};
  }
};

// An input, or a sample that a stage made, from its first appearance until its one outcome was reported. It is
// reported after the outcomes of everything made of it (open == 0), so that an interrupted run never has a recorded input
// with an unrecorded clip.
struct Track {
  std::string key;
  std::vector<std::shared_ptr<Track>> parents;  // the samples that it was made of
  // Samples made of this one whose outcome was not reported yet, plus 1 while a stage works on it: it may make more.
  uint32_t open = 0;
  std::optional<End> end;
  int32_t made = 0;              // kinora_outcome.made
  bool settled = false;          // its outcome is queued for reporting
  std::optional<Sample> sample;  // for the report
  Weight weight;
};

// A sample in a queue or in a stage.
struct Item {
  Sample sample;
  Weight weight;
  Place place;
  std::shared_ptr<Track> track;
  // A process died that held it, or that worked on it while it held others: it is tried again in a process of
  // its own. Samples that were emitted until then have been passed on, and are not reported twice.
  bool alone = false;
  bool single = false;  // its batch failed: process() repeats it
  bool is_single() const { return single || alone; }
  uint64_t emitted = 0;
  std::vector<std::string> told{};
};

using Tracks = std::vector<std::shared_ptr<Track>>;

// Whether the track is the input of this key, or was made of it.
bool is_of(const Track& track, std::string_view input);
// The keys of the inputs that the track was made of, sorted; of an input, its own.
std::set<std::string_view> inputs_of(const Track& track);

// The key and the small or textual fields: the part that is kept of a sample that waits for others, so that a video's bytes
// are not kept in memory.
Sample slim(const Sample& sample);

// An input that its stage holds (kinora_emit.hold), or one of a batch.
struct Held {
  std::shared_ptr<Track> track;
  Place place;
  uint64_t emitted;
  Sample sample;  // slim, unless it can be tried again
  Weight weight;  // counted in the ledger
  Weight beside;  // counted in the ledger of samples that no longer count against the bound
  bool whole = false;
  std::vector<std::string> told{};
};
using Holding = std::multimap<std::string, Held, std::less<>>;  // by key

}  // namespace kinora::local
