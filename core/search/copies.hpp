// Which clips of a curate job the dedup jobs of its run leave out as copies of others.
#pragma once
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "core/search/collection.hpp"

namespace kinora::core {

// What a dedup job that has ended has decided.
struct Decisions {
  std::filesystem::path file;     // its decisions.jsonl
  std::filesystem::path curated;  // folder of the curate job whose clips it is about
};
// Those of a run, in order.
std::vector<Decisions> decisions_in(const std::filesystem::path& run);

// Keys of the clips in `data`, a curate job's data folder, that are left out and that nobody has accepted in the
// studio. Decisions that cannot be read count for nothing, and the log says so.
std::set<std::string> copies_in(const std::filesystem::path& data);

}  // namespace kinora::core
