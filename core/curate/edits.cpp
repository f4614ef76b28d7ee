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

json subject_of(const json& facts) {
  json out = json::object();
  for (const char* name : {"sha256", "first_frame", "end_frame"})
    if (facts.is_object() && facts.contains(name)) out[name] = facts[name];
  return out;
}

bool is_same_subject(const json& a, const json& b) {
  if (!a.is_object() || !b.is_object()) return true;
  for (const auto& [name, value] : a.items())
    if (const auto at = b.find(name); at != b.end() && *at != value) return false;
  return true;
}

Edits read_edits(const std::filesystem::path& file, const std::function<json(const std::string&)>& subject) {
  Edits out;
  auto& edits = out.by_key;
  std::map<std::string, json> known;
  const auto fits = [&](const json& line) {
    const std::string key = text_in(line, "key");
    if (!subject || !line.contains("of")) return true;
    if (!known.count(key)) known[key] = subject(key);
    return is_same_subject(line["of"], known[key]);
  };
  std::ifstream in(file, std::ios::binary);
  size_t number = 0;
  for (std::string text; std::getline(in, text);) {
    if (in.eof()) break;  // no line end
    ++number;
    if (text.find_first_not_of(" \t\r") == std::string::npos) continue;
    const json line = json::parse(text, nullptr, false);
    if (line.is_object() && !fits(line)) {
      ++out.of_others;
      continue;
    }
    const std::string wrong = line.is_object() ? apply(line, edits) : "it is no JSON object";
    if (!wrong.empty())
      throw Error(KINORA_DATA, fmt::format("{}: line {}: {}; mend or remove the line", file.string(), number, wrong));
  }
  return out;
}

}  // namespace kinora::core
