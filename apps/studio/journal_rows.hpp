// The items of a job that is at work, kept, filtered and failed ones, from its journal.jsonl
// (plugins/jobs/curation/record.hpp says which of its lines still hold).
#pragma once
#include "apps/studio/rows.hpp"

namespace kinora::studio {

// A last line without its end is being written: it is not there yet.
void read_journal(const JobFolder& folder, size_t job, Rows& rows);

}  // namespace kinora::studio
