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
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/io/atomic_file.hpp"

namespace kinora::core {

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
  nlohmann::json film_;  // the last video's line
};

}  // namespace kinora::core
