// The items of a running job, kept, filtered and failed ones, from its journal.jsonl
// (plugins/jobs/curation/record.hpp defines which of its lines are still valid).
#pragma once
#include "apps/studio/rows.hpp"

namespace kinora::studio {

// A last line without a newline is still being written and is ignored.
void read_journal(const JobFolder& folder, size_t job, Rows& rows);

}  // namespace kinora::studio
