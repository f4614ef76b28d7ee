// Finds the clips of a curate job that the dedup jobs of its run leave out as copies of others.
#pragma once
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "plugins/jobs/curation/drops.hpp"
#include "plugins/jobs/curation/search/collection.hpp"

namespace kinora::core {

// The decisions of a finished dedup job.
struct Decisions {
  std::filesystem::path file;     // its decisions.jsonl
  std::filesystem::path curated;  // folder of the curate job with these clips
};
// The decisions of all dedup jobs of a run, in order.
std::vector<Decisions> decisions_in(const std::filesystem::path& run);

// The clips that these decisions leave out as copies, by key, if both clips still have the footage of the decision; the
// log counts the rest. Decisions that cannot be read are ignored and logged.
std::map<std::string, Drop> copies_by(const Decisions&);

// Keys of the clips in `data`, a curate job's data folder, that are left out and that no one has accepted in the
// studio.
std::set<std::string> copies_in(const std::filesystem::path& data);

}  // namespace kinora::core
