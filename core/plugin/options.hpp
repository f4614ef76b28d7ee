// A component's options: the given values, checked against the manifest and completed with its defaults.
// Plugins read them through kinora.options/1.
#pragma once
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/plugin/manifest.hpp"
#include "kinora/abi/options.h"

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

class Options {
 public:
  // Adds all problems; the options may be used only if there was none. `given` is an object (or null). Paths
  // become absolute against `base`; "asset:NAME" is resolved (paths.hpp); "scheme://..." is unchanged.
  static Options make(const ComponentSpec& spec, const json& given, std::vector<Problem>& problems,
                      const std::filesystem::path& base = {});
  // The same with all problems in one failure.
  static Result<Options> make(const ComponentSpec& spec, const json& given,
                              const std::filesystem::path& base = {});

  // For create(). Valid while this object lives and is not moved.
  const kinora_options* abi() const { return reinterpret_cast<const kinora_options*>(this); }
  // All of them; make() turns them into the same options again. Numbers that JSON lacks are the strings
  // "inf", "-inf", "nan".
  const json& values() const { return values_; }
  // values() with sorted keys and numbers that read back exactly.
  const std::string& canonical() const { return canonical_; }

  // The files and folders that options of type path name: absolute, or with a scheme.
  const std::vector<std::string>& paths() const { return paths_; }

  struct Value {
    bool list = false;
    std::variant<std::vector<int64_t>, std::vector<double>, std::vector<std::string>> items;
  };
  // Null: the manifest has no such option.
  const Value* find(std::string_view name) const;

 private:
  std::map<std::string, Value, std::less<>> items_;
  json values_ = json::object();
  std::string canonical_ = "{}";
  std::vector<std::string> paths_;
};

// The table of kinora.options/1.
const kinora_options_api& options_table();

}  // namespace kinora::core
