#include "plugins/jobs/curation/manifest.hpp"

#include <algorithm>
#include <array>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/facts.hpp"
#include "core/base/suggest.hpp"
#include "kinora/abi/base.h"
#include "kinora/error.hpp"
#include "kinora/json_nan.hpp"
#include "plugins/jobs/listing/csv_table.hpp"

namespace kinora::core {
namespace {

// place: "line 7" of JSONL, "record 7" of a CSV.
Input unusable(const std::string& name, const std::string& place, const std::string& why) {
  Input out;
  const size_t slash = name.rfind('/');
  out.url = (slash == std::string::npos ? name : name.substr(slash + 1)) + " " + place;
  out.error = name + ": " + place + ": " + why;
  return out;
}

std::string folded(std::string text) {
  text.erase(0, text.find_first_not_of(" \t"));
  text.erase(text.find_last_not_of(" \t") + 1);
  for (auto& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

// Describes a CSV header without url and path, and what may be meant.
std::string found_instead(const std::vector<std::string>& head) {
  constexpr size_t kShown = 12;
  std::string out = fmt::format("; it has '{}'{}",
                                fmt::join(head.begin(), head.begin() + std::min(head.size(), kShown), "', '"),
                                head.size() > kShown ? ", ..." : "");
  for (const auto& column : head)
    if (const auto name = folded(column); name == "url" || name == "path")
      return out + fmt::format(": write '{}' as '{}'", column, name);
  return out + other_separator(head);
}

constexpr std::array kKnown{"url", "path", "caption", "key"};
constexpr size_t kMostColumns = 1000;  // fields may differ from line to line

// Columns that differ from a known one by a letter, a space or case.
std::vector<std::string> misspelt(const std::set<std::string>& columns, const std::string& name) {
  std::vector<std::string> out;
  for (const auto& column : columns)
    for (const auto* known : kKnown)
      if (column != known && !columns.contains(known) && edit_distance(folded(column), known) <= 1)
        out.push_back(
            fmt::format("{}: column '{}' is kept as a column of your own; if you mean '{}', rename it", name,
                        column, known));
  return out;
}

// Reads the column's text; false if it is present but not text.
bool take_text(json& row, const char* column, std::string& out) {
  const auto at = row.find(column);
  if (at == row.end() || at->is_null()) return true;
  if (!at->is_string()) return false;
  out = at->get<std::string>();
  row.erase(at);
  return true;
}

// Why a line is no JSON object.
std::string flaw_of(const std::string& line, const json& read) {
  constexpr const char* kRemedy = "; write {\"url\": \"video.mp4\"}";
  if (!read.is_discarded())
    return std::string("it is not a JSON object but a JSON ") + read.type_name() + kRemedy;
  const auto repaired = without_nan(line);
  const std::string& text = repaired.empty() ? line : repaired;
  size_t place = 0;
  try {
    [[maybe_unused]] const json ignored =
        json::parse(text, [](int depth, json::parse_event_t, json&) { return depth < 64; });
  } catch (const json::parse_error& e) {
    place = e.byte;  // from 1 on; behind the end if the line is cut off
  }
  if (place == 0) return std::string("it is nested more than 64 levels deep; write {\"url\": \"video.mp4\"}");
  if (place > text.size()) return "it is not a JSON object: it ends too early";
  const size_t from = place - 1;
  return fmt::format("it is not a JSON object: character {} is {}{}", place,
                     json(text.substr(from, 1)).dump(-1, ' ', true, json::error_handler_t::replace), kRemedy);
}

Input input_of(json row, const std::string& name, const std::string& place) {
  Input out;
  std::string caption;
  const bool has_url = row.contains("url");
  for (const auto& [column, to] :
       {std::pair{has_url ? "url" : "path", &out.url}, {"caption", &caption}, {"key", &out.wanted}})
    if (!take_text(row, column, *to))
      return unusable(name, place, fmt::format("'{}' must be text, found {}", column, row[column].dump()));
  if (out.url.empty()) return unusable(name, place, "it names no video; add a 'url' or 'path'");
  if (!caption.empty()) out.caption = caption;
  for (const auto* column : kKnown)
    if (row.contains(column) && row[column].is_null()) row.erase(column);
  out.user = std::move(row);
  return out;
}

}  // namespace

std::vector<std::string> read_jsonl_manifest(const std::string& text, const std::string& name,
                                             const std::function<void(Input)>& row) {
  std::set<std::string> columns;
  size_t number = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    at = end + 1;
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    json object = parse_facts(line);
    if (object.is_discarded())
      object = parse_facts(without_nan(line));  // as pandas and Python's json write it
    const std::string place = "line " + std::to_string(number);
    if (object.is_object() && columns.size() < kMostColumns)
      for (const auto& [column, value] : object.items()) columns.insert(column);
    row(object.is_object() ? input_of(std::move(object), name, place)
                           : unusable(name, place, flaw_of(line, object)));
  }
  return misspelt(columns, name);
}

std::vector<std::string> read_csv_manifest(const std::string& text, const std::string& name,
                                           const std::function<void(Input)>& row) {
  std::set<std::string> columns;
  const auto place = [](size_t number) { return "record " + std::to_string(number); };
  const auto take_head = [&](const std::vector<std::string>& head) {
    columns = {head.begin(), head.end()};
    if (!columns.contains("url") && !columns.contains("path"))
      throw Error(KINORA_ERROR_DATA,
                  name + ": its first line has no column 'url' or 'path'; it must name the columns" +
                      found_instead(head));
  };
  read_csv_table(
      text, name, take_head,
      [&](size_t number, json object) { row(input_of(std::move(object), name, place(number))); },
      [&](size_t number, const std::string& why) { row(unusable(name, place(number), why)); });
  return misspelt(columns, name);
}

namespace {

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
    video_ = {
        {"key", text_in(item, "key")}, {"url", text_in(item, "url")}, {"sha256", text_in(facts, "sha256")}};
  // A video, or a clip of one, or a branch's copy of it (KEY@STAGE), whose line came before.
  const std::string video = text_in(video_, "key"), parent = made ? text_in(item, "parent") : "";
  const bool known = made && (parent == video || parent.starts_with(video + "@"));
  json line{{"key", text_in(item, "key")},
            {"film", known ? video : parent},
            {"url", made && !known ? "" : text_in(video_, "url")},
            {"sha256", made && !known ? text_in(facts, "sha256") : text_in(video_, "sha256")},
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
