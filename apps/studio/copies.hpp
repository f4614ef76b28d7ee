// Finds the clips of a curate job that the dedup jobs of its run leave out as copies of others (decisions.jsonl).
#pragma once
#include "apps/studio/catalogue.hpp"

namespace kinora::studio {

// Fills copy_of, copy_rule and copy_score of clips that finished jobs have kept.
void mark_copies(Catalogue&);

// Changes if mark_copies would now mark other clips.
std::string copies_stamp(const std::vector<JobFolder>& jobs);

}  // namespace kinora::studio
