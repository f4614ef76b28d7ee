// Saved views of a folder: views.jsonl next to edits.jsonl, one flushed line per change, of which the last of a
// name counts.
//
//   {"name": "dark sea", "view": "tag=sea&range=brightness%3A0%3A20", "where": "where = \"tags contains ...\"",
//    "author": "mia", "time": "2026-01-31T09:30:00.125Z"}
//
// view: the parameters of the page's query; null: the view was removed. where: the same as a line of a run file,
// "" if it has none.
#pragma once
#include <filesystem>

#include <nlohmann/json.hpp>

namespace kinora::studio {

class ViewFile {
 public:
  explicit ViewFile(std::filesystem::path file) : file_(std::move(file)) {}
  // [{"name", "view", "where"}] by name. Lines that cannot be read are ignored.
  nlohmann::json all() const;
  // Throws Error(KINORA_ERROR_IO): nothing was saved.
  void save(const nlohmann::json& line) const;

 private:
  std::filesystem::path file_;
};

}  // namespace kinora::studio
