// Comma-separated values as RFC 4180 has them, by libcsv.
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace kinora::core {

// Calls `row` for every record that is not blank, with its number from 1 on. A quote that is never closed or stands inside
// a field throws kinora::Error(KINORA_DATA) that says in which record of `name`.
void read_csv(std::string_view text, const std::string& name,
              const std::function<void(size_t number, std::vector<std::string> fields)>& row);

// One record with its line end; every field is quoted.
std::string csv_line(const std::vector<std::string>& fields);

}  // namespace kinora::core
