// The user's own tables about clips or videos, CSV and JSONL, whose columns become facts user.COLUMN.
#pragma once
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/io/io.hpp"

namespace kinora::core {

// The rows of a table by the value of its column `key`. Values of a CSV are texts, and empty cells are left out.
class UserTable {
 public:
  struct Row {
    nlohmann::json values;  // of the other columns
    size_t number;
  };

  // text: the table's contents in UTF-8; its name ends in .csv or .jsonl. NaN and Infinity, as Python writes
  // them, are null. Throws Error(KINORA_ERROR_DATA) with the row at fault: another number of fields than
  // columns, no key, or the key of an earlier row.
  UserTable(const std::string& name, const std::string& text, std::string key);

  // Null: there is none. It stays where it is.
  const Row* row(const std::string& key) const;
  // The key of the first row that is not one of these; "": there is none.
  std::string first_key_without(const std::unordered_set<const Row*>& rows) const;
  size_t size() const { return rows_.size(); }
  const std::string& name() const { return name_; }
  // Without `key`.
  const std::set<std::string>& columns() const { return columns_; }

 private:
  void read_csv_rows(const std::string& text);
  void read_jsonl_rows(const std::string& text);
  void add(nlohmann::json row, size_t number);
  [[noreturn]] void refuse(size_t number, const std::string& why) const;

  std::string name_, key_;
  std::set<std::string> columns_;
  std::unordered_map<std::string, Row> rows_;
};

// Why a file of this name cannot be joined; empty: it can.
std::string problem_of_table(const std::string& name);

// Reads the files or URIs. Throws kinora::Error.
std::vector<UserTable> read_tables(Io& io, const std::vector<std::string>& names, const std::string& key);

}  // namespace kinora::core
