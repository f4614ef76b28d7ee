// Which clips of a curate job the dedup jobs of its run leave out as copies of others (decisions.jsonl).
#pragma once
#include "apps/studio/catalogue.hpp"

namespace kinora::studio {

// Fills copy_of, copy_rule and copy_score of clips of jobs that have ended. Decisions do not say whose clips
// they are about: those of the job in the same run that has kept all that they name.
void mark_copies(Catalogue&);

// Changes when mark_copies would mark others.
std::string copies_stamp(const std::vector<JobFolder>& jobs);

}  // namespace kinora::studio
