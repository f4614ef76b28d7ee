// The random numbers of a transform.
#pragma once
#include <array>
#include <string>

#include "kinora/random.hpp"
#include "kinora/stage.hpp"

namespace kinora::transforms {

// Two numbers in (0, 1): a function of the run's seed, the stage's name and the slot that takes the sample (its
// field `slot`); of the sample's key instead where no training takes it.
inline std::array<double, 2> drawn(const Sample& in, const Run& run, const std::string& stage) {
  return Random(run.seed(), stage + "/" + std::string(in.text("slot").value_or(in.key()))).uniform(0);
}

}  // namespace kinora::transforms
