#include "plugins/jobs/select/user_tables.hpp"

#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/facts.hpp"
#include "core/base/suggest.hpp"
#include "kinora/error.hpp"
#include "plugins/jobs/curation/inputs.hpp"
#include "plugins/jobs/curation/manifest.hpp"

namespace kinora::core {
namespace {

using nlohmann::json;

// Keys of JSONL may be numbers: {"key": 17}.
std::string key_text(const json& value) {
  return value.is_string() ? value.get<std::string>() : value.is_number() ? value.dump() : "";
}

}  // namespace

UserTable::UserTable(const std::string& name, const std::string& text, std::string key)
    : name_(name), key_(std::move(key)) {
  ending_of(name) == ".csv" ? read_csv_rows(text) : read_jsonl_rows(text);
}

void UserTable::refuse(size_t number, const std::string& why) const {
  throw Error(KINORA_ERROR_DATA, fmt::format("{}: row {}: {}", name_, number, why));
}

void UserTable::add(json row, size_t number) {
  const auto at = row.find(key_);
  std::string key = at == row.end() ? "" : key_text(*at);
  if (key.empty()) refuse(number, "it has no '" + key_ + "'; join_key names the column with the keys");
  row.erase(at);
  const auto [place, is_new] = rows_.try_emplace(std::move(key), Row{std::move(row), number});
  if (!is_new)
    refuse(number, fmt::format("'{}' has row {} already; remove one of them", valid_utf8(place->first),
                               place->second.number));
}

void UserTable::read_csv_rows(const std::string& text) {
  std::vector<std::string> head;
  const auto take = [&](size_t number, std::vector<std::string> fields) {
    if (head.empty()) {
      head = std::move(fields);
      if (std::find(head.begin(), head.end(), key_) == head.end())
        refuse(number, fmt::format("it names the columns, and none is called '{}'{}; set join_key", key_,
                                   did_you_mean_or_list(key_, head, "columns")));
      if (std::set<std::string>(head.begin(), head.end()).size() < head.size())
        refuse(number, "two columns have one name; rename or remove one of them");
      return;
    }
    if (fields.size() != head.size())
      refuse(number, fmt::format("it has {} fields where the first row names {} columns", fields.size(),
                                 head.size()));
    json row = json::object();
    for (size_t i = 0; i < head.size(); ++i)
      if (!fields[i].empty()) row[valid_utf8(head[i])] = valid_utf8(fields[i]);
    add(std::move(row), number);
  };
  read_csv(text, take, [&](size_t number, const std::string& why) { refuse(number, why); });
}

void UserTable::read_jsonl_rows(const std::string& text) {
  size_t number = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const auto line = std::string_view(text).substr(at, end - at);
    at = end + 1;
    ++number;
    if (line.find_first_not_of(" \t\r") == line.npos) continue;
    json row = parse_facts(line);
    if (!row.is_object()) refuse(number, "it is not a JSON object");
    add(std::move(row), number);
  }
}

const json* UserTable::row(const std::string& key) const {
  const auto at = rows_.find(key);
  return at == rows_.end() ? nullptr : &at->second.values;
}

std::string problem_of_table(const std::string& name) {
  const std::string ending = ending_of(name);
  if (ending == ".csv" || ending == ".jsonl") return "";
  return name + ": a table must be a .csv or .jsonl file" +
         (ending == ".parquet" ? "; convert it, for example by pandas: "
                                 "read_parquet(FILE).to_json(OUT, orient=\"records\", lines=True)"
                               : "");
}

std::vector<UserTable> read_tables(Io& io, const std::vector<std::string>& names, const std::string& key) {
  constexpr uint64_t kLargest = uint64_t{4} << 30;
  std::vector<UserTable> out;
  for (const auto& name : names) out.emplace_back(name, or_throw(io.read_all(name, kLargest)), key);
  return out;
}

}  // namespace kinora::core
