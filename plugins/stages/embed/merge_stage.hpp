// stage/shots.merge: removes cuts between shots that look alike.
#pragma once
#include <nlohmann/json.hpp>

#include "kinora/stage.hpp"
#include "merge.hpp"

namespace kinora::embed {

class ShotsMerge final : public Stage {
 public:
  struct Options {
    std::string name = "classic", rule = "consecutive", mode = "on";
    double threshold = 0.95;
  };
  static void describe(Describe<Options>& d);
  explicit ShotsMerge(const Options& o);
  // Changes shots.json and shots.NAME.npy, which keeps one row per shot.
  void process(Sample in, const Emit& emit, const Run& run) override;

 private:
  Options options_;
};

// Returns shots.json without the joined cuts: cuts, times_us if present, and "similarities" of the remaining
// cuts; the removed cuts are appended to "merged", and "merge" describes the rule. scores, one per frame, and
// detectors are unchanged.
nlohmann::json without_joined(nlohmann::json shots, const Merged& merged);

// Returns shots.json with all its cuts, their "similarities", and in "merge" the cuts that would be joined.
nlohmann::json with_similarities(nlohmann::json shots, const Merged& merged);

}  // namespace kinora::embed
