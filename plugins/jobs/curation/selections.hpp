// Reads the decisions of a run's select jobs about the clips of a curate job, for people who look at them:
// the clips that each has left out, by which rule, and the facts that it has added. Shard jobs read the one
// job that is their input (drops.hpp).
#pragma once
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "plugins/jobs/curation/drops.hpp"

namespace kinora::core {

struct Selection {
  std::string job, where;                       // its name, and its condition
  std::map<std::string, std::string> left_out;  // key -> rule; without those that earlier jobs left out
  std::map<std::string, nlohmann::json> added;  // facts by key, those of clips that it left out, too
  std::map<std::string, Drop> dropped;          // all that its file does not keep, those of earlier jobs too
  bool is_last = true;  // it has left clips out, and no other job chooses further from its clips
};

// Reads the finished select jobs next to the curate job; one that reads another's clips follows it. Decisions
// that cannot be read are ignored and logged. clips: the footage that they have now; decisions about other
// footage do not count.
std::vector<Selection> selections_of(const std::filesystem::path& curated, const EditHistory::Subject& clips);

// The facts that these jobs have added to clips, by key; of two values the later job's counts.
std::map<std::string, nlohmann::json> added_by(const std::vector<Selection>&);

// The same of all select jobs next to a curate job, whatever footage its clips have now.
std::map<std::string, nlohmann::json> added_beside(const std::filesystem::path& curated);

// The run of a select or dedup job, whose folder has no clips of its own; every other folder as it is.
std::filesystem::path folder_with_clips(const std::filesystem::path& dir);

}  // namespace kinora::core
