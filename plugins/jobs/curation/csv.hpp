// Comma-separated values as RFC 4180 has them, by libcsv.
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace kinora::core {

// Calls `row` for every record that is not blank, with its number from 1 on. A record with a quote that is
// never closed or stands inside a field counts and goes to `broken` with what is wrong; reading goes on with
// the line after the one where it began.
void read_csv(std::string_view text,
              const std::function<void(size_t number, std::vector<std::string> fields)>& row,
              const std::function<void(size_t number, const std::string& why)>& broken);

// One record with its line end; every field is quoted.
std::string csv_line(const std::vector<std::string>& fields);

}  // namespace kinora::core
