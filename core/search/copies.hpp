// Which clips of a curate job the dedup jobs of its run leave out as copies of others.
#pragma once
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "core/search/collection.hpp"

namespace kinora::core {

// decisions.jsonl of the dedup jobs of a run that have ended, in order.
std::vector<std::filesystem::path> decisions_in(const std::filesystem::path& run);

// Keys of the clips in `data`, a curate job's data folder, that are left out and that nobody has accepted in the
// studio. Decisions do not say whose clips they are about: those of the job in the same run that has all that they
// name, of several the one with as many clips as there are decisions. Decisions that cannot be read count for
// nothing, and the log says so.
std::set<std::string> copies_in(const std::filesystem::path& data);

// Without them.
Embedded without_copies(Embedded);

}  // namespace kinora::core
