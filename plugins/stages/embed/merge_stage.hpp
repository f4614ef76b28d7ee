// stage/shots.merge: takes away the cuts between shots that look alike.
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
  // Changes shots.json (see describe) and shots.NAME.npy, whose rows stay those of the shots.
  void process(Sample in, const Emit& emit, const Run& run) override;

 private:
  Options options_;
};

// shots.json without the joined cuts: cuts, times_us where it is there, and "similarities" of what is left;
// "merged" is longer by what went, "merge" says how. scores, one a frame, and detectors stay as they are.
nlohmann::json without_joined(nlohmann::json shots, const Merged& merged);

// shots.json with "similarities" of all its cuts, and in "merge" the cuts that would be joined; the cuts
// stay.
nlohmann::json with_similarities(nlohmann::json shots, const Merged& merged);

}  // namespace kinora::embed
