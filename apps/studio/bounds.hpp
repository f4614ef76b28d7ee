// The bounds by which a curate job's stages filter, from the options in its job.json, and what would change if one were
// moved.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "apps/studio/query.hpp"

namespace kinora::studio {

struct StageBound {
  size_t job = 0;
  std::string stage, option;  // "filter.flow", "p10_at_least"
  std::string rule, column;   // "filter.flow.p10", "scores.filter.flow.p10"
  bool is_most = false;       // a larger value is filtered; else a smaller one
  double value = 0;

  bool keeps(double other) const { return is_most ? other <= value : other >= value; }
};

// The bounds that filter clips; stages that only record a score have none. In the order of the stages.
std::vector<StageBound> bounds_of(const std::vector<JobFolder>& jobs);

// Numbers of clips, as the stage alone decides: a clip that comes back may be filtered by a later stage.
struct Moved {
  int64_t gone = 0;  // kept clips that the bound would filter
  int64_t back = 0;  // filtered clips that it would keep
};
// All of `bounds` on `column` and on the same side are moved to `value`.
Moved moved(const Catalogue&, const std::vector<StageBound>& bounds, const std::string& column, bool is_most,
            double value);

}  // namespace kinora::studio
