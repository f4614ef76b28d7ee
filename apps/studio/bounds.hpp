// The bounds by which a curate job's stages filter, from the options in its job.json, and those by which
// select jobs choose, from their conditions; and what would change if one were moved.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "apps/studio/query.hpp"
#include "plugins/jobs/curation/fact_bounds.hpp"

namespace kinora::studio {

struct StageBound : core::FactBound {
  size_t job = 0;
  std::string select = {};  // name of the select job; "": a stage
  size_t chooser = 0;       // its place in Catalogue::choosers

  // That of a select job with another value.
  std::string condition(double at) const;
  // Whether both move together: they are on the same side of the same column, in stages or in one select job.
  bool moves_with(const std::string& field, bool most, const std::string& select_job) const {
    return column == field && is_most == most && select == select_job;
  }
};

// The bounds that filter clips; stages that only record a score have none. In the order of the stages.
std::vector<StageBound> bounds_of(const std::vector<JobFolder>& jobs);
// Conditions FACT OP NUMBER that a top-level `and` joins in the select jobs' `where`.
std::vector<StageBound> bounds_of(const Catalogue&);

// Numbers of clips, as the stage or the condition alone decides: a clip that comes back may be filtered by a later one.
struct Moved {
  int64_t gone = 0;  // kept clips that the bound would filter
  int64_t back = 0;  // filtered clips that it would keep
};
// All of `bounds` that move with these are moved to `value`. select: name of a select job; "": of stages. is_rejected:
// whether people have rejected a clip, which does not count then; empty: none.
Moved moved(const Catalogue&, const std::vector<StageBound>& bounds, const std::string& column, bool is_most,
            double value, const std::string& select = "",
            const std::function<bool(const Clip&)>& is_rejected = nullptr);

}  // namespace kinora::studio
