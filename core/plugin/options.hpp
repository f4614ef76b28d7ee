// A component's options: the given values, checked against the manifest and completed with its defaults.
// Plugins read them through kinora.options/1.
#pragma once
#include <filesystem>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "core/plugin/option_value.hpp"
#include "kinora/abi/options.h"

namespace kinora::core {

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
