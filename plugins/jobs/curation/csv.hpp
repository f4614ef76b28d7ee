// Comma-separated values according to RFC 4180, by libcsv.
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace kinora::core {

// Calls `row` for every record that is not blank, with its number, counted from 1. A record with a quote that
// is never closed or that is inside a field counts too: it goes to `broken` with the reason, and reading
// resumes with the line after its first line.
void read_csv(std::string_view text,
              const std::function<void(size_t number, std::vector<std::string> fields)>& row,
              const std::function<void(size_t number, const std::string& why)>& broken);

// One record with its line end; every field is quoted.
std::string csv_line(const std::vector<std::string>& fields);

}  // namespace kinora::core
