// Samples that `kinora plugins validate` gives to a stage: usual ones, and hostile ones.
#pragma once
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "apps/validate/check.hpp"
#include "kinora/abi/sample.h"

namespace kinora {

struct TrialTensor {
  std::string name;
  std::vector<int64_t> shape;
  uint8_t code = 1, bits = 8;  // DLPack's
  std::string bytes;
};

struct TrialSample {
  std::string what;  // "field 'txt' empty"
  std::string key;
  std::vector<std::pair<std::string, std::string>> fields;
  std::vector<TrialTensor> tensors;
};

// The shape of a manifest, "[T, H, W, 3]", with these sizes for its letters ('.' for "..."). If it has two
// shapes ("[B] or [B, T]"), the first.
std::vector<int64_t> trial_shape(const std::string& text, const std::map<char, int64_t>& sizes,
                                 int64_t other);

// n samples "clip-0000" ...: caption, facts, the tensors that the stage's manifest names, and the bytes of
// --input. The same for the same seed.
std::vector<TrialSample> usual_samples(const PluginTrial&, size_t n);

// Usual samples, each with one thing that no stage must stumble over.
std::vector<TrialSample> hostile_samples(const PluginTrial&);

// The caller owns one reference, counted by the watching host. Throws Error.
kinora_sample* sample_of(const TrialSample&);

}  // namespace kinora
