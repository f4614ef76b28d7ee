// What a curate job says of its films and clips, one line each: manifest.jsonl and, with the same columns,
// manifest.csv.
//
//   key        of the sample; the files of a kept one are data/KEY.*
//   film       key of the film that a clip was cut from; empty for a film
//   url        of the film
//   sha256     of the film's bytes
//   start, end of a clip in its film, in seconds
//   caption
//   outcome    kept, filtered, failed
//   stage      where it ended, unless it went through all
//   reason     the rule that filtered it, or why it failed
//   score      of that rule
//   scores     all that filters measured, by filter; a JSON object, in the CSV as text
//   user.NAME  what the user's manifest says of the film in its column NAME
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/io/atomic_file.hpp"

namespace kinora::core {

class ManifestWriter {
 public:
  // The files appear at commit(). user: the user's columns of the CSV. Throws kinora::Error, as all
  // functions.
  explicit ManifestWriter(const std::filesystem::path& folder, std::vector<std::string> user = {});
  // A line of items.jsonl, each film before its clips.
  void add(const nlohmann::json& item, bool made);
  void commit();

 private:
  AtomicFile jsonl_, csv_;
  std::vector<std::string> user_;
  nlohmann::json film_;  // the last one
};

}  // namespace kinora::core
