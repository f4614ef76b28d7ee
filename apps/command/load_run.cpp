#include "apps/command/load_run.hpp"

#include <algorithm>
#include <filesystem>
#include <set>

#include "core/base/log.hpp"
#include "core/base/paths.hpp"
#include "core/plugin/plugins_lock.hpp"
#include "core/run/inputs.hpp"
#include "core/runtime/place.hpp"
#include "host/stages/stage_check.hpp"
#include "host/weights/weights.hpp"
#include "host/workers/service.hpp"

namespace kinora {
namespace {

// The name of the table that stands for the jobs NAME-high and NAME-low (expert = "both"), of which `name` is one; "":
// there is none.
std::string job_of_both(const nlohmann::json& root, const std::string& name) {
  const auto dash = name.rfind('-');
  const std::string end = dash == name.npos ? "" : name.substr(dash), of = name.substr(0, dash);
  const auto jobs = root.value("job", nlohmann::json::array());
  const bool is_one = (end == "-high" || end == "-low") && std::ranges::any_of(jobs, [&](const auto& job) {
                        return job.is_object() && job.value("expert", nlohmann::json()) == "both" &&
                               job.value("name", job.value("kind", nlohmann::json())) == of;
                      });
  return is_one ? of : "";
}

// A plugin found earlier may take over what another offers, also what Kinora itself does. That may be
// intended, but never happens unnoticed. Rank 0 speaks for all.
void warn_of_taken_over(core::Runtime& runtime, const core::RunFile& run) {
  const auto place = core::place_of(core::environment);
  if (place && !place->first()) return;
  std::set<std::string> used{"storage/file"};
  for (const auto& storage : run.storages) used.insert(storage.id);
  for (const auto& job : run.jobs) {
    used.insert(job.kind->id);
    for (const auto& use : job.components) used.insert(use.id);
  }
  for (const auto& line : runtime.registry().taken_over(used)) core::log_warn("{}", line);
}

// The command line's lock goes before the one next to the file.
core::Status lock_plugins(core::Registry& registry, const std::filesystem::path& file) {
  std::error_code error;
  const auto beside = std::filesystem::absolute(file).parent_path() / core::kPluginsLock;
  if (registry.is_locked() || !std::filesystem::exists(beside, error)) return {};
  auto lock = core::PluginsLock::read(beside);
  if (!lock) return lock.failure();
  core::lock_workers(beside);
  return registry.use_lock(*std::move(lock));
}

}  // namespace

core::Status set_value(core::Document& doc, const std::string& assignment) {
  const std::string path = assignment.substr(0, assignment.find('=')), job = path.substr(0, path.find('.'));
  auto status = doc.set(assignment);
  const bool is_assignment = path.size() < assignment.size();
  const std::string of = status || !is_assignment ? "" : job_of_both(doc.root(), job);
  if (of.empty()) return status;
  return core::fail(
      KINORA_ERROR_INVALID,
      "--set {}: job '{}' makes {} and its other expert (expert = \"both\"), which have the same "
      "options; set {}{}, or write two jobs, expert = \"high\" and expert = \"low\"",
      path, of, job, of, path.substr(job.size()));
}

core::RunFile load_run(core::Runtime& runtime, core::Document& doc, const std::string& file,
                       const std::vector<std::string>& sets, std::optional<int64_t> ranks,
                       std::vector<core::Diagnostic>& problems, const std::string& only) {
  for (const auto& set : sets)
    if (auto status = set_value(doc, set); !status) problems.push_back({{}, status.failure().message});
  if (auto status = lock_plugins(runtime.registry(), file); !status)
    problems.push_back({{}, status.failure().message});
  core::RunFile run = core::read_run(doc, runtime.registry(), core::with_weights, problems, only);
  warn_of_taken_over(runtime, run);
  core::configure_storages(runtime.io(), run, problems);
  if (ranks || !problems.empty())
    for (auto& p : core::check_jobs(runtime, run, ranks.value_or(0))) problems.push_back(std::move(p));
  return run;
}

}  // namespace kinora
