#include "plugins/jobs/select/user_tables.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "core/base/facts.hpp"
#include "core/base/suggest.hpp"
#include "core/base/text_encoding.hpp"
#include "kinora/error.hpp"
#include "kinora/json_nan.hpp"
#include "plugins/jobs/listing/csv_table.hpp"
#include "plugins/jobs/curation/inputs.hpp"

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
  for (const auto& [column, value] : row.items()) columns_.insert(column);
  const auto [place, is_new] = rows_.try_emplace(std::move(key), Row{std::move(row), number});
  if (!is_new)
    refuse(number,
           fmt::format("'{}' has row {} already; remove one of them", place->first, place->second.number));
}

void UserTable::read_csv_rows(const std::string& text) {
  const auto take_head = [&](const std::vector<std::string>& head) {
    if (std::find(head.begin(), head.end(), key_) != head.end()) return;
    const std::string separator = other_separator(head);
    refuse(1, fmt::format("it names the columns, and none is called '{}'{}", key_,
                          separator.empty() ? did_you_mean_or_list(key_, head, "columns") + "; set join_key"
                                            : separator));
  };
  read_csv_table(
      text, name_, take_head, [&](size_t number, json row) { add(std::move(row), number); },
      [&](size_t number, const std::string& why) { refuse(number, why); });
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
    if (row.is_discarded()) row = parse_facts(without_nan(line));
    if (!row.is_object()) refuse(number, "it is not a JSON object");
    add(std::move(row), number);
  }
}

const UserTable::Row* UserTable::row(const std::string& key) const {
  const auto at = rows_.find(key);
  return at == rows_.end() ? nullptr : &at->second;
}

std::string UserTable::first_key_without(const std::unordered_set<const Row*>& rows) const {
  const std::pair<const std::string, Row>* first = nullptr;
  for (const auto& one : rows_)
    if (!rows.contains(&one.second) && (!first || one.second.number < first->second.number)) first = &one;
  return first ? first->first : "";
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
  for (const auto& name : names)
    out.emplace_back(name, or_throw(utf8_text(or_throw(io.read_all(name, kLargest)), name)), key);
  return out;
}

}  // namespace kinora::core
