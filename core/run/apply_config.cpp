#include "core/run/apply_config.hpp"

#include <fstream>

#include "core/log.hpp"
#include "core/run/apply_published.hpp"
#include "core/suggest.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;

json read_object(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in)
    throw Error(KINORA_NOT_FOUND, fmt::format("config={}: cannot be read; give a JSON file", file.string()));
  json out;
  try {
    out = json::parse(in);
  } catch (const json::parse_error& e) {
    throw Error(KINORA_INVALID, fmt::format("{}: no JSON: {}", file.string(), e.what()));
  }
  if (!out.is_object())
    throw Error(KINORA_INVALID, fmt::format("{}: a configuration is a JSON object, found {}", file.string(),
                                            found_text(out)));
  return out;
}

}  // namespace

json read_config(const fs::path& given, const ComponentSpec& spec) {
  const fs::path part = published_part(given, spec),
                 file = fs::is_directory(part) ? part / "config.json" : part;
  std::vector<std::string> names;
  for (const auto& option : spec.options) names.push_back(option.name);
  json out = json::object();
  std::string ignored;
  std::vector<Problem> problems;
  const json object = read_object(file);
  for (const auto& [name, value] : object.items()) {
    if (name.starts_with('_')) continue;
    const auto* option = spec.option(name);
    if (option && !value.is_null()) {
      out[name] = value;
      checked_value(*option, value, spec.id, problems);
      continue;
    }
    ignored += (ignored.empty() ? "" : ", ") + name;
    if (option)
      ignored += " (null)";
    else if (const auto near = suggest(name, names); !near.empty())
      ignored += fmt::format(" (did you mean '{}'?)", near);
  }
  std::string text;
  for (const auto& p : problems) text += (text.empty() ? "" : "\n") + file.string() + ": " + p.message;
  if (!text.empty()) throw Error(KINORA_INVALID, text);
  if (!ignored.empty())
    log_warn("{}: ignored, because {} has no such options: {}", file.string(), spec.id, ignored);
  return out;
}

}  // namespace kinora::core
