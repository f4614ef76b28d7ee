// Comma-separated values: records, and tables whose first line names the columns.
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

namespace kinora::core {

// Reads comma-separated values according to RFC 4180, by libcsv: calls `row` for every record that is not
// blank, with its number, counted from 1. A record with a quote that is never closed or that is inside a
// field counts too: it goes to `broken` with the reason, and reading resumes with the line after its first
// line.
void read_csv(std::string_view text,
              const std::function<void(size_t number, std::vector<std::string> fields)>& row,
              const std::function<void(size_t number, const std::string& why)>& broken);

// One record with its line end; every field is quoted.
std::string csv_line(const std::vector<std::string>& fields);

// Reads a table in UTF-8. Calls `head` once with the names of the columns, then for each record either `row`
// with its cells that are not empty, by column, or `broken` with the reason, as read_csv() and if it has more
// or fewer fields than the first line. Spreadsheets leave nameless columns at the end: they are read, and one
// of them may have a value. Throws Error(KINORA_ERROR_DATA) if the first line cannot be read or names two
// columns alike, and what the functions throw.
void read_csv_table(const std::string& text, const std::string& name,
                    const std::function<void(const std::vector<std::string>& columns)>& head,
                    const std::function<void(size_t number, nlohmann::json row)>& row,
                    const std::function<void(size_t number, const std::string& why)>& broken);

// ": the columns are separated by ';'; separate them by ','" for a first line without commas; "": nothing hints at it.
std::string other_separator(const std::vector<std::string>& head);

}  // namespace kinora::core
