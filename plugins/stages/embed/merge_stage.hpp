// stage/shots.merge: joins neighbouring shots that look alike, to smooth a detector that cuts too often
// (arXiv 2503.12964, section 2).
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "kinora/npy.hpp"
#include "kinora/stage.hpp"

namespace kinora::embed {

enum class MergeRule {
  consecutive,  // compares a shot with the previous one
  running,      // compares a shot with the mean of the shots joined before it
};

// Decisions about the cuts between rows.rows() shots: one entry per cut.
struct Merged {
  std::vector<double> similarity;  // cosine; 0 if a shot has no frame
  std::vector<bool> joined;
};
// rows [shots, D]; a row of zeros is a shot without frames, which is never joined.
Merged merge(const FloatArray& rows, MergeRule rule, double threshold);

// Returns the normalised mean of each run of joined shots: [remaining shots, D].
FloatArray joined_rows(const FloatArray& rows, const std::vector<bool>& joined);

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
