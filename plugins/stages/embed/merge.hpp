// Joins neighbouring shots that look alike: smooths a detector that cuts too often (arXiv 2503.12964, section 2).
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "kinora/npy.hpp"

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

}  // namespace kinora::embed
