// The parts of the manifest's parser: tables of TOML with a fixed set of keys, and the reading of one
// [[component]]. Private to manifest.cpp.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <toml++/toml.h>

#include "core/plugin/manifest.hpp"

namespace kinora::core {

// Errors and warnings of one file, each "FILE:LINE:COL: what is wrong and what is right".
class TomlErrors {
 public:
  explicit TomlErrors(std::string_view file) : file_(file) {}
  template <class... Args>
  void add(const toml::source_region& place, fmt::format_string<Args...> format, Args&&... args) {
    add_text(place.begin, fmt::format(format, std::forward<Args>(args)...));
  }
  void add_text(const toml::source_position& place, std::string_view message) { keep(place, message, false); }
  void warn(const toml::source_region& place, std::string_view message) { keep(place.begin, message, true); }
  bool has_errors() const;
  // Errors and warnings, in the order of the file.
  std::vector<std::string> lines();

  // "FILE:LINE:COL: message"
  std::string located(const toml::source_position& place, std::string_view message) const;

 private:
  struct Line {
    uint32_t line, column;
    std::string text;
    bool is_warning;
  };
  void keep(const toml::source_position& place, std::string_view message, bool is_warning);
  std::string file_;
  std::vector<Line> lines_;
};

struct TomlEntry {
  const toml::key* key;
  const toml::node* node;
};

// A table's entries in the order of the file; toml++ sorts them by name.
std::vector<TomlEntry> in_file_order(const toml::table& table);

// Takes the known keys out of one table; finish() warns of the rest.
class TomlTable {
 public:
  // `what` names the table in messages: "[plugin]", "option 'steps'".
  TomlTable(const toml::table& table, std::string what, TomlErrors& errors)
      : table_(table), what_(std::move(what)), errors_(errors) {}

  // A string, or "" (with an error if it is required and missing, or of another type).
  std::string text(const char* key, bool required = false);
  bool truth(const char* key);
  std::vector<std::string> texts(const char* key);
  // Null: missing.
  const toml::node* node(const char* key);
  const toml::table* table(const char* key);
  // Position of a key's value, or of the table.
  const toml::source_region& place(const char* key) const;
  void missing(const char* key);
  void finish();

 private:
  const toml::table& table_;
  std::string what_;
  TomlErrors& errors_;
  std::vector<std::string> known_;
};

struct Reading {
  TomlErrors& errors;
  bool
      is_known;  // an unknown key is a warning; an unknown kind or another draft makes the component unusable
  Tier tier;     // tier of the plugin: jobs and services belong to tier host, engines may
};

ComponentSpec read_component(const toml::table& table, Reading reading);

// Names become file names, ids and TOML keys.
bool is_name(std::string_view name);
inline constexpr const char* name_rule = "use a-z, 0-9, '-', '_' and '.'";

// A key that exists and is a string.
bool has_text(const toml::table& table, const char* key);

}  // namespace kinora::core
