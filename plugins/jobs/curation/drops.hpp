// Decides which kept clips of a curate job stay out of the shards, and why: people rejected them, a dedup job
// of the run found them to be copies, or a select job did not choose them. Both kinds of jobs write
// decisions.jsonl, one line for each clip of the curate job, those that earlier jobs left out included:
//
//   {"key": "video-0003", "end": "kept", "clip": {"sha256": ...}, "set": "train", "user": {"label": "sea"}}
//   {"key": "video-0004", "end": "filtered", "rule": "dedup.semantic", "score": 0.998, "of": "video-0001"}
//   {"key": "video-0005", "end": "filtered", "rule": "blur >= 20", "final": true}
//   {"key": "video-0006", "end": "kept",
//    "duplicate": {"of": "video-0001", "similarity": 0.998, "why": "copy of video-0001: ..."}}
//
// "set" and "user" are facts that a select job adds to the clip's own, "duplicate" one that a dedup job with
// mode = "score" adds to the copies that it keeps. A select job follows people's decisions itself, so what it
// removes is "final".
#pragma once
#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "plugins/jobs/curation/edits.hpp"

namespace kinora::core {

struct Drop {
  std::string rule{}, reason{}, of{};  // of: key of the clip that it is a copy of
  double score = 0;                    // of a copy: how alike they are
  // subject_of both clips at the time of the decision, as far as the line says.
  nlohmann::json clip = {}, of_clip = {};
  bool is_final = false;  // a select job, which has followed people's decisions, removed it
};

// A person's decision overrides any rule: clips rejected in the studio are dropped by rule studio.reject, and
// clips marked to be kept are not dropped, unless that is final.
void apply_edits(const EditHistory& edits, std::map<std::string, Drop>& drops);

constexpr const char* kDecisionsFile = "decisions.jsonl";

// Calls f with every line of decisions.jsonl, its text, key and end. Throws kinora::Error if the file cannot be read.
void each_decision(const std::filesystem::path& decisions,
                   const std::function<void(const nlohmann::json& line, const std::string& text,
                                            const std::string& key, const std::string& end)>& f);

// Everything that decisions.jsonl did not keep. Throws as each_decision().
std::map<std::string, Drop> drops_in(const std::filesystem::path& decisions);

// Copies that replace a rejected clip, each with that clip, from the same file.
std::map<std::string, std::string> replacements_in(const std::filesystem::path& decisions);

// The facts that a decision adds to those of its clip; empty: none.
nlohmann::json added_facts(const nlohmann::json& decision);
// The added facts of all kept clips, by key, from the same file.
std::map<std::string, nlohmann::json> added_facts_in(const std::filesystem::path& decisions);

// Removes drops that were decided about other footage than their clips have now, and copies of clips that are
// gone or have other footage. Returns how many of them were of existing clips.
size_t take_outdated(std::map<std::string, Drop>& drops, const EditHistory::Subject& clips);

// The decisions of a finished dedup or select job.
struct Decisions {
  std::filesystem::path file;     // its decisions.jsonl
  std::filesystem::path curated;  // folder of the curate job with these clips
};
// The decisions of all such jobs of a run, in order.
std::vector<Decisions> decisions_in(const std::filesystem::path& run);

// The clips that these decisions leave out as copies, by key, if both clips still have the footage of the
// decision; the log counts the rest. Decisions that cannot be read are ignored and logged.
std::map<std::string, Drop> copies_by(const Decisions&);

// Keys of the clips in `data`, a curate job's data folder, that are left out and that no one has accepted in
// the studio.
std::set<std::string> copies_in(const std::filesystem::path& data);

}  // namespace kinora::core
