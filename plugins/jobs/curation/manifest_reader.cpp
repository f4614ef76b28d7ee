#include "plugins/jobs/curation/manifest_reader.hpp"

#include <algorithm>
#include <array>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "plugins/jobs/curation/csv.hpp"
#include "core/base/facts.hpp"
#include "core/base/suggest.hpp"

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
  std::string out = fmt::format("; it has '{}'{}", fmt::join(head.begin(), head.begin() + std::min(head.size(), kShown), "', '"),
                                head.size() > kShown ? ", ..." : "");
  for (const auto& column : head)
    if (const auto name = folded(column); name == "url" || name == "path")
      return out + fmt::format(": write '{}' as '{}'", column, name);
  for (const auto& [c, called] : {std::pair{';', "';'"}, {'\t', "tabs"}, {'|', "'|'"}})
    if (head.size() == 1 && head.front().find(c) != std::string::npos)
      return out + fmt::format(": the columns are separated by {}; separate them by ','", called);
  return out;
}

constexpr std::array kKnown{"url", "path", "caption", "key"};
constexpr size_t kMostColumns = 1000;  // fields may differ from line to line

// Columns that differ from a known one by a letter, a space or case.
std::vector<std::string> misspelt(const std::set<std::string>& columns, const std::string& name) {
  std::vector<std::string> out;
  for (const auto& column : columns)
    for (const auto* known : kKnown)
      if (column != known && !columns.contains(known) && edit_distance(folded(column), known) <= 1)
        out.push_back(fmt::format("{}: column '{}' is kept as a column of your own; if you mean '{}', rename it", name,
                                  column, known));
  return out;
}

// Two columns with the same name would appear as one to a reader of rows. Spreadsheets leave nameless columns at the end.
void refuse_twice(const std::vector<std::string>& head, const std::string& name) {
  for (size_t i = 0; i < head.size(); ++i)
    if (const auto first = std::find(head.begin(), head.begin() + static_cast<ptrdiff_t>(i), head[i]);
        !head[i].empty() && first != head.begin() + static_cast<ptrdiff_t>(i))
      throw Error(KINORA_DATA, fmt::format("{}: line 1: columns {} and {} are both called '{}'; rename or remove one of them",
                                           name, first - head.begin() + 1, i + 1, head[i]));
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
    const std::string place = "line " + std::to_string(number);
    if (object.is_object() && columns.size() < kMostColumns)
      for (const auto& [column, value] : object.items()) columns.insert(column);
    row(object.is_object() ? input_of(std::move(object), name, place)
                           : unusable(name, place, "it is not a JSON object; write {\"url\": \"film.mp4\"}"));
  }
  return misspelt(columns, name);
}

std::vector<std::string> read_csv_manifest(const std::string& text, const std::string& name,
                                           const std::function<void(Input)>& row) {
  std::vector<std::string> head;
  const auto take = [&](size_t number, std::vector<std::string> fields) {
    if (head.empty()) {
      head = std::move(fields);
      const bool names_films =
          std::any_of(head.begin(), head.end(), [](const auto& c) { return c == "url" || c == "path"; });
      if (!names_films)
        throw Error(KINORA_DATA, name + ": its first line has no column 'url' or 'path'; it must name the columns" +
                                     found_instead(head));
      return refuse_twice(head, name);
    }
    const std::string place = "record " + std::to_string(number);
    if (fields.size() != head.size())
      return row(unusable(
          name, place,
          fmt::format("{} fields, but the first line names {} columns", fields.size(), head.size())));
    json object = json::object();
    for (size_t i = 0; i < head.size(); ++i)
      if (!fields[i].empty() && !object.emplace(head[i], fields[i]).second)
        return row(unusable(name, place, fmt::format("two nameless columns have a value, the second is column {}; name them in the first line", i + 1)));
    row(input_of(std::move(object), name, place));
  };
  read_csv(text, take, [&](size_t number, const std::string& why) {
    const std::string place = "record " + std::to_string(number);
    if (head.empty()) throw Error(KINORA_DATA, name + ": " + place + ": " + why);
    row(unusable(name, place, why));
  });
  return misspelt({head.begin(), head.end()}, name);
}

}  // namespace kinora::core
