// Which clips of a curate job the dedup jobs of its run leave out as copies of others (decisions.jsonl).
#pragma once
#include "apps/studio/catalogue.hpp"

namespace kinora::studio {

// Fills copy_of, copy_rule and copy_score of clips that jobs which have ended have kept.
void mark_copies(Catalogue&);

// Changes when mark_copies would mark others.
std::string copies_stamp(const std::vector<JobFolder>& jobs);

}  // namespace kinora::studio
