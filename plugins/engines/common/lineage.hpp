// A sample inside the engine: its position in the order of the source, what it was made of, and its one
// outcome.
//
// The outcome of a sample is reported after those of everything made of it, so that an interrupted run
// repeats what it had not finished. Guarded by the run's mutex (runner.hpp).
#pragma once
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "kinora/abi/engine.h"
#include "plugins/engines/common/ledger.hpp"

namespace kinora::engines {

// The number of the input, then the number of each emission that led to this sample. Compared element by
// element, this is the order in which a single thread would see the samples if it took each input through the
// whole pipeline.
using Place = std::vector<uint64_t>;

inline Place below(const Place& place, uint64_t emission) {
  Place out;
  out.reserve(place.size() + 1);
  out = place;
  out.push_back(emission);
  return out;
}

// For one ordered stage: for each sample that is still upstream, the position of the next sample that may
// come from it.
class Frontier {
 public:
  void add(Place next) { next_.insert(std::move(next)); }
  void remove(const Place& next) {
    const auto at = next_.find(next);
    if (at != next_.end()) next_.erase(at);
  }
  // Whether no sample can still arrive that belongs before `place`.
  bool passed(const Place& place) const { return next_.empty() || place < *next_.begin(); }

 private:
  std::multiset<Place> next_;
};

// How a sample ended.
struct End {
  uint32_t end = KINORA_OUTCOME_KEPT;
  const char* stage = nullptr;  // null: it left the pipeline
  std::optional<std::string> reason;
  double score = 0;
  int32_t status = KINORA_OK;
  bool consumed = false;

  static End consumed_by(const char* stage) {
    return {KINORA_OUTCOME_KEPT, stage, std::nullopt, 0, KINORA_OK, true};
  }
  static End filtered(const char* stage, std::string rule, double score) {
    return {KINORA_OUTCOME_FILTERED, stage, std::move(rule), score};
  }
  static End failed(const char* stage, int32_t status, std::string message) {
    return {KINORA_OUTCOME_FAILED, stage, std::move(message), 0, status};
  }
};

// A sample that the engine keeps so that others can be made of it again (Runner::lose).
struct Whole {
  Sample sample;
  Weight weight;  // counted in the ledger until the outcome was reported
  size_t after;   // 0: as the source gave it; n: as stage n - 1 emitted it
};

// An input, or a sample that a stage made, from its first appearance until its one outcome was reported. It
// is reported after the outcomes of everything made of it (open == 0), so that an interrupted run never has a
// recorded input with an unrecorded clip.
struct Track {
  std::string key;
  std::vector<std::shared_ptr<Track>> parents;  // the samples that it was made of
  // Samples made of this one whose outcome was not reported yet, plus 1 while a stage works on it: it may
  // make more.
  uint32_t open = 0;
  std::optional<End> end;
  int32_t made = 0;              // kinora_outcome.made
  bool settled = false;          // its outcome is queued for reporting
  std::optional<Sample> sample;  // for the report
  Weight weight;
  // A whole of its parents with a smaller number is upstream of where it was made.
  size_t since = 0;
  std::vector<Whole> wholes{};  // in the order of the stages
  int64_t losses = 0;           // how often its bytes were lost
};

struct Remake;

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
  uint64_t emitted = 0;
  std::vector<std::string> told{};
  bool passed = false;  // the stage has emitted or dropped it, and may make more of it: it is being worked on
  // A batch would emit once more what was told.
  bool is_single() const { return single || alone || passed || !told.empty(); }
  std::shared_ptr<Remake> remake{};  // it only makes lost samples again (remake.hpp)
};

using Tracks = std::vector<std::shared_ptr<Track>>;

// Whether the track is the input of this key, or was made of it.
bool is_of(const Track& track, std::string_view input);
// The keys of the inputs that the track was made of, sorted; of an input, its own.
std::set<std::string_view> inputs_of(const Track& track);

// The key and the small or textual fields that are in this process: the part that is kept of a sample that waits for
// others, so that a video's bytes are not kept in memory.
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

// Records what each sample was made of, and queues the outcomes that can be reported.
class Lineage {
 public:
  // `reportable` is called when an outcome can be reported.
  Lineage(Ledger& ledger, std::function<void()> reportable)
      : ledger_(ledger), reportable_(std::move(reportable)) {}

  // A new sample that was made of the parents. None: of nothing that could be named, in finish().
  static std::shared_ptr<Track> child(const Tracks& parents, std::string_view key, size_t since = 0);
  // Keeps the sample until its outcome was reported.
  void keep(Track& track, const Sample& sample, const Weight& weight, size_t after);
  // While a stage works on a sample it may make more of it, and its outcome waits.
  static void begin_work(Track& track) { ++track.open; }
  void end_work(const std::shared_ptr<Track>& track);
  // The sample's outcome. weight: counted in the ledger until it is reported.
  void end(const std::shared_ptr<Track>& track, End end, Sample sample, Weight weight);

  // Samples that left the pipeline, wait for their report, and are lost: they have no outcome any more. Their
  // samples and weights are the caller's.
  Tracks lose(const std::function<bool(const Sample&)>& is_lost);

  // The next outcome to report, or null; told() follows when it has been.
  std::shared_ptr<Track> next();
  void told(const Track& track);
  size_t unreported() const { return ends_.size(); }
  bool all_told() const { return ends_.empty() && !telling_; }

 private:
  void settle(std::shared_ptr<Track> track);

  Ledger& ledger_;
  const std::function<void()> reportable_;
  std::deque<std::shared_ptr<Track>> ends_;
  std::set<std::shared_ptr<Track>> left_;  // ended by leaving the pipeline, and not reported
  bool telling_ = false;
};

}  // namespace kinora::engines
