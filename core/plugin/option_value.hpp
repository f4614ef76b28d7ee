// One value against one line of a manifest.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "core/plugin/manifest.hpp"

namespace kinora::core {

// One thing that is wrong with what was given; the caller knows the place in its file.
struct Problem {
  std::string path;  // "steps", "sizes[2]"
  std::string message;
};

// The value in the option's own form: a size in bytes, a float from an int, "inf" and "nan" as floats. Adds a
// problem for each item of the wrong type, out of range or not among the choices; `owner` is the component's
// id.
json checked_value(const OptionSpec& spec, const json& given, std::string_view owner,
                   std::vector<Problem>& problems);

// "an int from 1 to 1000 (frames)", "a list of floats, each above 0": what the option takes.
std::string expected_text(const OptionSpec& spec);

// "the string \"ten\"", "a list of 3 items": what was given instead, cut short.
std::string found_text(const json& given);

// Infinities and NaN, for which JSON has no number, as the strings that checked_value() reads.
json portable_json(const json& value);

// The type of an item of a list; of a scalar the type itself.
OptionType item_type(OptionType type);
bool is_list(OptionType type);

}  // namespace kinora::core
