// Decides which kept clips of a curate job stay out of the shards, and why: people rejected them, or a dedup
// job of the run found them to be copies.
#pragma once
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "plugins/jobs/curation/edits.hpp"

namespace kinora::core {

struct Drop {
  std::string rule, reason, of;  // of: key of the clip that it is a copy of
  double score = 0;
  // subject_of both clips at the time of the decision, as far as the line says.
  nlohmann::json clip = {}, of_clip = {};
};

// A person's decision overrides any rule: clips rejected in the studio are dropped by rule studio.reject, and
// clips marked to be kept are not dropped.
void apply_edits(const EditHistory& edits, std::map<std::string, Drop>& drops);

// Everything that decisions.jsonl of a dedup job did not keep; one line is {"key", "end", "rule", "score",
// "of", "clip"}. Throws kinora::Error if the file cannot be read.
std::map<std::string, Drop> drops_in(const std::filesystem::path& decisions);

// Copies that replace a rejected clip, each with that clip, from the same file.
std::map<std::string, std::string> replacements_in(const std::filesystem::path& decisions);

// Removes drops that were decided about other footage than their clips have now, and copies of clips that are
// gone or have other footage. Returns how many of them were of existing clips.
size_t take_outdated(std::map<std::string, Drop>& drops, const EditHistory::Subject& clips);

// The decisions of a finished dedup job.
struct Decisions {
  std::filesystem::path file;     // its decisions.jsonl
  std::filesystem::path curated;  // folder of the curate job with these clips
};
// The decisions of all dedup jobs of a run, in order.
std::vector<Decisions> decisions_in(const std::filesystem::path& run);

// The clips that these decisions leave out as copies, by key, if both clips still have the footage of the
// decision; the log counts the rest. Decisions that cannot be read are ignored and logged.
std::map<std::string, Drop> copies_by(const Decisions&);

// Keys of the clips in `data`, a curate job's data folder, that are left out and that no one has accepted in
// the studio.
std::set<std::string> copies_in(const std::filesystem::path& data);

}  // namespace kinora::core
