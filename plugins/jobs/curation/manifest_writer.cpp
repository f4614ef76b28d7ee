#include "plugins/jobs/curation/manifest_writer.hpp"

#include <array>

#include "plugins/jobs/curation/csv.hpp"
#include "core/base/facts.hpp"

namespace kinora::core {
namespace {

using nlohmann::json;

constexpr std::array<const char*, 11> kColumns{"key",     "film",    "url",   "sha256", "start", "end",
                                               "caption", "outcome", "stage", "reason", "score"};

std::string dumped(const json& value) { return value.dump(-1, ' ', false, json::error_handler_t::replace); }

std::string cell(const json& line, const char* column) {
  const auto at = line.find(column);
  if (at == line.end() || at->is_null()) return "";
  return at->is_string() ? at->get<std::string>() : dumped(*at);
}

}  // namespace

ManifestWriter::ManifestWriter(const std::filesystem::path& folder, std::vector<std::string> user)
    : jsonl_(or_throw(AtomicFile::create(folder / "manifest.jsonl"))),
      csv_(or_throw(AtomicFile::create(folder / "manifest.csv"))),
      user_(std::move(user)) {
  std::vector<std::string> head(kColumns.begin(), kColumns.end());
  head.emplace_back("scores");
  for (const auto& name : user_) head.push_back("user." + name);
  or_throw(csv_.write(csv_line(head)));
}

void ManifestWriter::add(const json& item, bool made) {
  const json& facts = object_in(item, "facts");
  if (!made)
    film_ = {
        {"key", text_in(item, "key")}, {"url", text_in(item, "url")}, {"sha256", text_in(facts, "sha256")}};
  // A video, or a clip of one, or a branch's copy of it (KEY@STAGE), whose line came before.
  const std::string film = text_in(film_, "key"), parent = made ? text_in(item, "parent") : "";
  const bool known = made && (parent == film || parent.starts_with(film + "@"));
  json line{{"key", text_in(item, "key")},
            {"film", known ? film : parent},
            {"url", made && !known ? "" : text_in(film_, "url")},
            {"sha256", made && !known ? text_in(facts, "sha256") : text_in(film_, "sha256")},
            {"outcome", text_in(item, "end")}};
  for (const auto& [column, fact] : {std::pair{"start", "start_s"}, {"end", "end_s"}})
    if (made && facts.contains(fact)) line[column] = facts[fact];
  for (const char* column : {"caption", "stage", "reason", "score"})
    if (item.contains(column)) line[column] = item[column];
  if (const json& scores = object_in(facts, "scores"); !scores.empty()) line["scores"] = scores;
  for (const auto& [name, value] : object_in(facts, "user").items()) line["user." + name] = value;
  or_throw(jsonl_.write(dumped(line) + "\n"));
  std::vector<std::string> cells;
  for (const char* column : kColumns) cells.push_back(cell(line, column));
  cells.push_back(cell(line, "scores"));
  for (const auto& name : user_) cells.push_back(cell(line, ("user." + name).c_str()));
  or_throw(csv_.write(csv_line(cells)));
}

void ManifestWriter::commit() {
  or_throw(jsonl_.commit());
  or_throw(csv_.commit());
}

}  // namespace kinora::core
