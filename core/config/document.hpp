// A TOML file as JSON plus the position of every key and value, so that any later error can name
// FILE:LINE:COL.
#pragma once
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/base/status.hpp"

namespace kinora::core {

struct Location {
  std::string file;
  int line = 0, column = 0;  // from 1; 0: the file as a whole
};

// One error in a configuration.
struct Diagnostic {
  Location at;
  std::string message;
};

// "quickstart.toml:31:1: message"; without a line, only the file.
std::string format(const Diagnostic&);

// The text of a TOML file as UTF-8, whatever program saved it; see utf8_text(). KINORA_ERROR_NOT_FOUND if
// there is no such file.
Result<std::string> read_toml(const std::filesystem::path& file);

class Document {
 public:
  // Fails at the first syntax error, since TOML cannot be read past it, and as read_toml().
  static Result<Document> read(const std::filesystem::path& file);
  // name: the file's, or a flag's such as "--pipeline", whose text has no lines that a user could look up.
  static Result<Document> parse(std::string_view text, const std::string& name);

  // Sets "a.b.c" like --set on the command line: the value is TOML, or else a plain string. Items of [[job]]
  // are addressed by their name: "dit.steps". Fails if a job or table on the way does not exist.
  Status set(std::string_view assignment);

  const nlohmann::json& root() const { return root_; }
  const std::string& name() const { return name_; }
  // Position of the key (for a wrong name) or of the value (for a wrong value) at a JSON pointer such as
  // "/job/3/steps".
  Location key(const std::string& pointer) const;
  Location value(const std::string& pointer) const;

 private:
  struct Place {
    Location key, value;
  };
  Location find(const std::string& pointer, Location Place::*which) const;
  std::string name_;
  nlohmann::json root_;
  std::map<std::string, Place> places_;
};

}  // namespace kinora::core
