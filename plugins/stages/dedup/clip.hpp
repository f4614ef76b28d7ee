// What deduplication knows of a clip: its place in the order of keeping, its content, its embedding.
#pragma once
#include <string>
#include <vector>

#include "kinora/npy.hpp"
#include "kinora/sample.hpp"

namespace kinora::dedup {

struct Clip {
  Sample sample;
  std::string content;             // hash of its bytes, "" if it is not known or known to be the only one
  std::vector<double> worth = {};  // compared from the front, more is kept rather; ties: the lesser key
};

// How much a clip is worth by a rule: "best" (facts.scores[score]), "longest" (duration_s), "largest" (width
// x height), "first" (nothing: the key decides). After the rule's own number the others' decide: picture
// size, then length. A missing number is the least.
Clip clip_of(Sample sample, const std::string& keep, const std::string& score);

// Whether a is kept rather than b.
bool before(const Clip& a, const Clip& b);

// Field NAME.npy as a vector of length 1. Error(KINORA_NOT_FOUND or KINORA_DATA) if it is missing, of another
// size than `size` (0: any), not finite or zero.
std::vector<float> unit_embedding(const Sample& sample, const std::string& name, int64_t size);

}  // namespace kinora::dedup
