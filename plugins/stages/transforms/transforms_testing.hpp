// Shared by the tests of transforms: a stage's call for one slot.
#pragma once
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "kinora/testing.hpp"

namespace kinora::transforms {

inline constexpr uint64_t kSeed = 3;

// The sample that the stage emits for this one, in a run with this seed. Throws the stage's error.
template <class T>
Sample passed(T& stage, const Sample& sample, uint64_t seed = kSeed) {
  const testing::Run run;
  kinora_run with_seed = *run.get();
  with_seed.seed = seed;
  testing::Collector out;
  stage.process(sample.clone(sample.key()), out.emit(), Run(&with_seed));
  return out.emitted.at(0);
}

// The sample as a slot of a training takes it.
inline Sample taken(const Sample& sample, uint64_t slot) {
  Sample out = sample.clone(sample.key());
  out.set("slot", std::to_string(slot));
  return out;
}

template <class F>
std::string error_of(F f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

// Five standard deviations of a count of n with this probability.
inline double bound(double n, double probability) {
  return 5 * std::sqrt(n * probability * (1 - probability));
}

}  // namespace kinora::transforms
