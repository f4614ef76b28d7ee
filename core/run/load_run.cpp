#include "core/run/load_run.hpp"

#include <filesystem>
#include <set>

#include "core/base/log.hpp"
#include "core/base/paths.hpp"
#include "core/plugin/plugins_lock.hpp"
#include "core/run/inputs.hpp"
#include "core/run/job_check.hpp"
#include "core/run/place.hpp"
#include "core/workers/service.hpp"

namespace kinora::core {
namespace {

// A plugin found earlier may take over what another offers, also what Kinora itself does. That may be
// intended, but never happens unnoticed. Rank 0 speaks for all.
void warn_of_taken_over(Runtime& runtime, const RunFile& run) {
  const auto place = place_of(environment);
  if (place && !place->first()) return;
  std::set<std::string> used{"storage/file"};
  for (const auto& storage : run.storages) used.insert(storage.id);
  for (const auto& job : run.jobs) {
    used.insert(job.kind->id);
    for (const auto& use : job.components) used.insert(use.id);
  }
  for (const auto& line : runtime.registry().taken_over(used)) log_warn("{}", line);
}

// The command line's lock goes before the one next to the file.
Status lock_plugins(Registry& registry, const std::filesystem::path& file) {
  std::error_code error;
  const auto beside = std::filesystem::absolute(file).parent_path() / kPluginsLock;
  if (registry.is_locked() || !std::filesystem::exists(beside, error)) return {};
  auto lock = PluginsLock::read(beside);
  if (!lock) return lock.failure();
  lock_workers(beside);
  return registry.use_lock(*std::move(lock));
}

}  // namespace

RunFile load_run(Runtime& runtime, Document& doc, const std::string& file,
                 const std::vector<std::string>& sets, std::optional<int64_t> ranks,
                 std::vector<Diagnostic>& problems, const std::string& only) {
  for (const auto& set : sets)
    if (auto status = doc.set(set); !status) problems.push_back({{}, status.failure().message});
  if (auto status = lock_plugins(runtime.registry(), file); !status)
    problems.push_back({{}, status.failure().message});
  RunFile run = read_run(doc, runtime.registry(), problems, only);
  warn_of_taken_over(runtime, run);
  configure_storages(runtime.io(), run, problems);
  if (ranks || !problems.empty())
    for (auto& p : check_jobs(runtime, run, ranks.value_or(0))) problems.push_back(std::move(p));
  return run;
}

}  // namespace kinora::core
