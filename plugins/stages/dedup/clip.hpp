// A clip as deduplication sees it: its rank in the keep order, its content and its embedding.
#pragma once
#include <string>
#include <vector>

#include "kinora/npy.hpp"
#include "kinora/sample.hpp"

namespace kinora::dedup {

struct Clip {
  Sample sample;
  std::string content;             // hash of its bytes; "" if unknown or known to be unique
  std::vector<double> worth = {};  // compared lexicographically, larger values rank first; ties: the lower key first
};

// Builds a clip with its rank by a rule: "best" (facts.scores[score]), "longest" (duration_s), "largest" (width
// x height), "first" (the key alone decides). The rule's own number comes first, then picture size, then
// length. A missing number ranks last.
Clip clip_of(Sample sample, const std::string& keep, const std::string& score);

// Whether a ranks before b in the keep order.
bool before(const Clip& a, const Clip& b);

// Returns field NAME.npy as a vector of norm 1. Error(KINORA_NOT_FOUND or KINORA_DATA) if it is missing, of
// another size than `size` (0: any), not finite or zero.
std::vector<float> unit_embedding(const Sample& sample, const std::string& name, int64_t size);

}  // namespace kinora::dedup
