// Samples whose bytes were lost are made again: the nearest ancestor that the engine has whole runs through the stages
// once more, and all that it gives is dropped but the lost samples and those that lead to them. Guarded by the run's
// mutex (runner.hpp).
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "plugins/engines/common/stage_state.hpp"

namespace kinora::engines {

// A sample that is lost, and where it was.
struct Lost {
  Item item;       // its sample is slim until it was made again
  StageState* at;  // in the stage's queue, or in the stage; null: it had left the pipeline
};

// A sample that is lost, or that leads to lost ones.
struct Remake {
  std::shared_ptr<Track> track;
  std::vector<Lost> lost{};  // to do; a second one if a stage had emitted it and still worked on it
  // Made of it, by key and Track::since (copies for two branches of one stage may have one key); to do.
  std::map<std::pair<std::string, size_t>, std::shared_ptr<Remake>> below{};
  size_t running = 0;  // samples that run through the stages for it

  bool is_done() const { return lost.empty() && below.empty(); }
  // Whether something is to do behind stage after - 1.
  bool leads_on(size_t after) const {
    return !lost.empty() || std::any_of(below.begin(), below.end(),
                                        [&](const auto& made) { return made.first.second > after; });
  }
};

}  // namespace kinora::engines
