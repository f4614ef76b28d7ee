#include "plugins/jobs/curation/manifest.hpp"

#include <algorithm>
#include <array>
#include <csv.h>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/facts.hpp"
#include "core/base/suggest.hpp"
#include "kinora/abi/base.h"
#include "kinora/error.hpp"

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
        out.push_back(
            fmt::format("{}: column '{}' is kept as a column of your own; if you mean '{}', rename it", name,
                        column, known));
  return out;
}

// Two columns with the same name would appear as one to a reader of rows. Spreadsheets leave nameless columns
// at the end.
void refuse_twice(const std::vector<std::string>& head, const std::string& name) {
  for (size_t i = 0; i < head.size(); ++i)
    if (const auto first = std::find(head.begin(), head.begin() + static_cast<ptrdiff_t>(i), head[i]);
        !head[i].empty() && first != head.begin() + static_cast<ptrdiff_t>(i))
      throw Error(
          KINORA_ERROR_DATA,
          fmt::format("{}: line 1: columns {} and {} are both called '{}'; rename or remove one of them",
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
        throw Error(KINORA_ERROR_DATA,
                    name + ": its first line has no column 'url' or 'path'; it must name the columns" +
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
        return row(unusable(
            name, place,
            fmt::format(
                "two nameless columns have a value, the second is column {}; name them in the first line",
                i + 1)));
    row(input_of(std::move(object), name, place));
  };
  read_csv(text, take, [&](size_t number, const std::string& why) {
    const std::string place = "record " + std::to_string(number);
    if (head.empty()) throw Error(KINORA_ERROR_DATA, name + ": " + place + ": " + why);
    row(unusable(name, place, why));
  });
  return misspelt({head.begin(), head.end()}, name);
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

namespace {

struct Rows {
  const std::function<void(size_t, std::vector<std::string>)>& row;
  std::vector<std::string> fields;
  size_t number = 0;
  std::exception_ptr failure;  // libcsv is C: nothing may be thrown through it
};

void take_field(void* text, size_t size, void* rows) {
  auto& r = *static_cast<Rows*>(rows);
  try {
    if (!r.failure) r.fields.emplace_back(static_cast<const char*>(text), size);
  } catch (...) {
    r.failure = std::current_exception();
  }
}

void take_row(int, void* rows) {
  auto& r = *static_cast<Rows*>(rows);
  ++r.number;
  if (r.failure) return;
  try {
    r.row(r.number, std::exchange(r.fields, {}));
  } catch (...) {
    r.failure = std::current_exception();
  }
}

struct Parser {
  csv_parser it{};
  Parser() {
    if (csv_init(&it, CSV_STRICT | CSV_STRICT_FINI) != 0) throw std::bad_alloc();
    csv_set_space_func(&it, [](unsigned char) { return 0; });  // spaces are part of a field
  }
  Parser(const Parser&) = delete;
  Parser& operator=(const Parser&) = delete;
  ~Parser() { csv_free(&it); }
};

// libcsv has one error code for both quote errors; text that ends within quotes fails only at the end.
std::string csv_problem(csv_parser& parser, bool at_end) {
  const int error = csv_error(&parser);
  if (error != CSV_EPARSE) return csv_strerror(error);
  return std::string(at_end ? "a quote is not closed" : "a quote is not closed, or is inside a field") +
         "; put a field with quotes, commas or line ends in quotes, and double each quote in it";
}

bool is_blank(std::string_view lines) { return lines.find_first_not_of("\r\n") == std::string_view::npos; }

}  // namespace

// Feeds one line at a time, so that the first line of a broken record is known: reading resumes after that
// line.
void read_csv(std::string_view text, const std::function<void(size_t, std::vector<std::string>)>& row,
              const std::function<void(size_t, const std::string&)>& broken) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  Rows rows{row, {}, 0, nullptr};
  const auto after_line = [&](size_t at) { return std::min(text.find('\n', at), text.size() - 1) + 1; };
  for (size_t begin = 0; begin < text.size();) {
    Parser parser;
    bool sound = true;
    for (size_t at = begin; sound && at < text.size();) {
      const size_t size = after_line(at) - at, known = rows.number;
      sound = csv_parse(&parser.it, text.data() + at, size, take_field, take_row, &rows) == size;
      at += size;
      if (sound && (rows.number > known || is_blank(text.substr(begin, at - begin)))) begin = at;
    }
    if (sound && csv_fini(&parser.it, take_field, take_row, &rows) == 0) begin = text.size();
    if (rows.failure) std::rethrow_exception(rows.failure);
    if (begin == text.size()) break;
    rows.fields.clear();
    broken(++rows.number, csv_problem(parser.it, sound));
    begin = after_line(begin);
  }
}

std::string csv_line(const std::vector<std::string>& fields) {
  std::string out;
  for (const auto& field : fields) {
    std::string quoted(2 * field.size() + 2, '\0');
    quoted.resize(csv_write(quoted.data(), quoted.size(), field.data(), field.size()));
    out += (out.empty() ? "" : ",") + quoted;
  }
  return out + "\r\n";
}

}  // namespace kinora::core
