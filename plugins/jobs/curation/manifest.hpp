// Manifests of videos, as JSONL and as CSV: those that users write, and the one that a curate job writes.
//
// A user's manifest:
//
//   {"url": "a.mp4", "caption": "A boat at sea.", "key": "boat", "licence": "CC0"}      a line of JSONL
//   path,caption,licence                                                               the head of a CSV
//
// `url` or `path` names the video, `caption` is the user's own (it overrides any stage's), `key` names the
// sample; every other column is kept in json["user"].
#pragma once
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/io/atomic_file.hpp"
#include "plugins/jobs/curation/inputs.hpp"

namespace kinora::core {

// Calls `row` with url, caption, user and, if given, key set, or with `error`, which names the line, and a
// url that identifies it. Skips blank lines. Returns messages about columns that are one letter away from the
// four: they are kept as user columns, but may be misspelt.
std::vector<std::string> read_jsonl_manifest(const std::string& text, const std::string& name,
                                             const std::function<void(Input)>& row);

// Every value is kept as text and written out unchanged: stages that need a number (filter.facts) parse it,
// quoted or not. Throws kinora::Error if the header has neither url nor path, or two columns with the same
// name, or cannot be read.
std::vector<std::string> read_csv_manifest(const std::string& text, const std::string& name,
                                           const std::function<void(Input)>& row);

// Writes what a curate job knows of its videos and clips, one line each: manifest.jsonl and, with the same
// columns, manifest.csv.
//
//   key        key of the sample; the files of a kept one are data/KEY.*
//   film       key of the video that a clip was cut from; empty for a video
//   url        url of the video
//   sha256     SHA-256 of the video's bytes
//   start, end times of a clip in its video, in seconds
//   caption
//   outcome    "kept", "filtered" or "failed"
//   stage      the stage where it ended, unless it passed all
//   reason     the rule that filtered it, or why it failed
//   score      score by that rule
//   scores     all values that filters measured, by filter; a JSON object, in the CSV as text
//   user.NAME  the video's value in column NAME of the user's manifest
class ManifestWriter {
 public:
  // The files appear at commit(). user: the user's columns of the CSV. All functions throw kinora::Error.
  explicit ManifestWriter(const std::filesystem::path& folder, std::vector<std::string> user = {});
  // Adds a line of items.jsonl; each video before its clips.
  void add(const nlohmann::json& item, bool made);
  void commit();

 private:
  AtomicFile jsonl_, csv_;
  std::vector<std::string> user_;
  nlohmann::json video_;  // the last video's line
};

}  // namespace kinora::core
