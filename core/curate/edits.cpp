#include "core/curate/edits.hpp"

#include <fstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/curate/facts.hpp"
#include "kinora/abi/base.h"
#include "kinora/error.hpp"

namespace kinora::core {
namespace {

using nlohmann::json;

// What is wrong with the line; empty: nothing.
std::string apply(const json& line, std::map<std::string, Edit>& edits) {
  const std::string key = text_in(line, "key");
  if (key.empty()) return "it has no \"key\"";
  if (!line.contains("set") || !line["set"].is_object()) return "it has no object \"set\"";
  Edit& edit = edits[key];
  edit.author = text_in(line, "author");
  for (const auto& [member, value] : line["set"].items()) {
    const bool back = value.is_null();
    if (member == "keep") {
      if (!back && !value.is_boolean()) return "\"keep\" must be true or false";
      edit.keep = back ? std::nullopt : std::optional(value.get<bool>());
    } else if (member == "caption" || member == "reason") {
      if (!back && !value.is_string()) return "\"" + member + "\" must be text";
      if (member == "reason") edit.reason = back ? "" : value.get<std::string>();
      if (member == "caption") edit.caption = back ? std::nullopt : std::optional(value.get<std::string>());
    }
  }
  return "";
}

}  // namespace

std::map<std::string, Edit> read_edits(const std::filesystem::path& file) {
  std::map<std::string, Edit> edits;
  std::ifstream in(file, std::ios::binary);
  size_t number = 0;
  for (std::string text; std::getline(in, text);) {
    if (in.eof()) break;  // no line end
    ++number;
    if (text.find_first_not_of(" \t\r") == std::string::npos) continue;
    const json line = parse_facts(text);
    const std::string wrong = line.is_object() ? apply(line, edits) : "it is no JSON object";
    if (!wrong.empty())
      throw Error(KINORA_DATA, fmt::format("{}: line {}: {}; mend or remove the line", file.string(), number, wrong));
  }
  return edits;
}

}  // namespace kinora::core
