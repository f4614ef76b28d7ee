// Which clips of a curate job the dedup jobs of its run leave out as copies of others.
#pragma once
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "plugins/jobs/curation/drops.hpp"
#include "plugins/jobs/curation/search/collection.hpp"

namespace kinora::core {

// What a dedup job that has ended has decided.
struct Decisions {
  std::filesystem::path file;     // its decisions.jsonl
  std::filesystem::path curated;  // folder of the curate job whose clips it is about
};
// Those of a run, in order.
std::vector<Decisions> decisions_in(const std::filesystem::path& run);

// What they leave out as copies of others, by key, as far as both clips still have the footage that was decided about; of
// others the log says how many there are. Decisions that cannot be read count for nothing, and the log says so.
std::map<std::string, Drop> copies_by(const Decisions&);

// Keys of the clips in `data`, a curate job's data folder, that are left out and that nobody has accepted in the
// studio.
std::set<std::string> copies_in(const std::filesystem::path& data);

}  // namespace kinora::core
