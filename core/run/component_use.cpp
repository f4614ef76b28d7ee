#include "core/run/run_file.hpp"

namespace kinora::core {

namespace fs = std::filesystem;

std::optional<ComponentUse> read_component(const Document& doc, const Registry& registry,
                                           const std::string& pointer, const std::string& kind,
                                           const fs::path& base, std::vector<Diagnostic>& problems,
                                           const json& given) {
  std::string name;
  json options = json::object();
  if (given.is_string()) {
    name = given;
  } else if (given.is_object() && given.contains("use") && given["use"].is_string()) {
    name = given["use"];
    options = given;
    options.erase("use");
  } else {
    problems.push_back(
        {doc.value(pointer), "expected the " + kind + "'s name, or a table such as { use = \"...\" }"});
    return std::nullopt;
  }
  const auto spec = registry.find(kind, name);
  if (!spec) {
    problems.push_back({doc.value(given.is_object() ? pointer + "/use" : pointer), spec.failure().message});
    return std::nullopt;
  }
  std::vector<Problem> found;
  ComponentUse use{"", (*spec)->id, Options::make(**spec, options, found, base), "", doc.value(pointer)};
  for (const auto& p : found) {
    const std::string at = pointer + "/" + p.path.substr(0, p.path.find('['));
    const bool unknown = !(*spec)->option(p.path.substr(0, p.path.find('[')));
    problems.push_back({unknown ? doc.key(at) : doc.value(at), p.message});
  }
  use.version = or_throw(registry.plugin_of(use.id)).spec.version;
  use.draws = (*spec)->draws;
  use.results = (*spec)->results;
  return use;
}

void profile_engines(RunFile& run, const Registry& registry) {
  for (auto& job : run.jobs)
    for (auto& use : job.components) {
      const auto spec = registry.find(use.id);
      if (use.slot != "engine" || !spec || !(*spec)->option("profile")) continue;
      json values = use.options.values();
      values["profile"] = true;
      use.options = or_throw(Options::make(**spec, values));
    }
}

}  // namespace kinora::core
