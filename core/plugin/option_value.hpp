// Checks one value against one line of a manifest.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "core/plugin/manifest.hpp"

namespace kinora::core {

// One error in the given options; the caller knows the position in its file.
struct Problem {
  std::string path;  // "steps", "sizes[2]"
  std::string message;
};

// Converts the value to the option's own form: a size to bytes, an int to a float, "inf" and "nan" to floats.
// Adds a problem for each item of the wrong type, out of range or not among the choices; `owner` is the
// component's id.
json checked_value(const OptionSpec& spec, const json& given, std::string_view owner,
                   std::vector<Problem>& problems);

// "an int from 1 to 1000 (frames)", "a list of floats, each above 0": what the option takes.
std::string expected_text(const OptionSpec& spec);

// "the string \"ten\"", "a list of 3 items": the value found instead, abbreviated.
std::string found_text(const json& given);

// Writes infinities and NaN, which JSON lacks, as the strings that checked_value() reads.
json portable_json(const json& value);

// The type of the items of a list; for a scalar the type itself.
OptionType item_type(OptionType type);
bool is_list(OptionType type);

}  // namespace kinora::core
