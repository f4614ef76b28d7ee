// Which neighbouring shots are one: the smoothing of a detector that cuts too often (arXiv 2503.12964,
// section 2).
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "kinora/npy.hpp"

namespace kinora::embed {

enum class MergeRule {
  consecutive,  // a shot with the one before it
  running,      // a shot with the mean of those that were joined before it
};

// Decisions about the cuts between rows.rows() shots: one entry a cut.
struct Merged {
  std::vector<double> similarity;  // cosine; 0 where a shot has no picture
  std::vector<bool> joined;
};
// rows [shots, D]; a row of zeros is a shot without a picture, which is joined to none.
Merged merge(const FloatArray& rows, MergeRule rule, double threshold);

// The normalised mean of each run of joined shots: [shots that are left, D].
FloatArray joined_rows(const FloatArray& rows, const std::vector<bool>& joined);

}  // namespace kinora::embed
