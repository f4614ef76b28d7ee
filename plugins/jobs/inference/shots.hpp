// A video as a list of shots: each begins with a chunk, has a prompt of its own, and may be a cut (LongLive 2.0).
#pragma once
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/torch/attention/visibility.hpp"
#include "plugins/jobs/inference/frame_options.hpp"
#include "plugins/jobs/inference/shot.hpp"

namespace kinora::core {

// texts: JSON objects, {"prompt", "chunks" or "seconds", "cut", "switch", "blend"}. Throws Error(KINORA_ERROR_INVALID)
// that names the shot and the member.
std::vector<Shot> shots_of(const std::vector<std::string>& texts);

// Which of a shot's chunks stays visible, and how far time jumps at a cut.
struct ShotRule {
  Frames::Pin pin = Frames::Pin::none;
  int64_t jump = 0;  // latent frames
};

ShotRule shot_rule(const ShotOptions& options);

class ShotList {
 public:
  ShotList() = default;
  // time: pixel frames of a latent frame.
  ShotList(std::vector<Shot> shots, const ShotRule& rule, double fps, Chunks lengths, int64_t time);
  // A shot that begins with this chunk, which is not the first one. If one does already, a shot that neither cuts nor
  // switches changes its prompt alone. chunks() is for a list without added ones.
  void add(int64_t chunk, const Shot& shot);
  bool empty() const { return shots_.empty(); }
  int64_t chunks() const;                                      // of all shots
  int64_t frames() const { return lengths_.begin(chunks()); }  // latent ones
  // The shot that begins with this chunk; null: none does.
  const Shot* beginning_at(int64_t chunk) const;
  // The first chunk of the shot that this chunk is in.
  int64_t begin_of(int64_t chunk) const;
  // The first chunk of the last cut up to this chunk; 0: there was none.
  int64_t last_cut(int64_t chunk) const;
  // The cuts whose first chunks are kept while this chunk is made: its own and, at a cut, also the one before it if the
  // rule says `before`.
  std::set<int64_t> pinned_at(int64_t chunk) const;
  // The pixel frames that begin with a cut.
  std::set<int64_t> cuts() const;
  // [{"frame", "prompt"}]: the pixel frame with which each shot begins.
  nlohmann::json described() const;
  // The rule of a forward of `count` latent frames from `first` on.
  Frames at(Frames rule, int64_t first, int64_t count) const;

 private:
  // The pixel frame with which this chunk begins.
  int64_t first_frame(int64_t chunk) const;

  std::map<int64_t, Shot> shots_;  // by the chunk with which each begins
  ShotRule rule_;
  Chunks lengths_;
  int64_t time_ = 1;
};

}  // namespace kinora::core
