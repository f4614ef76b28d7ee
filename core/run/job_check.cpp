#include "core/run/job_check.hpp"

#include <algorithm>

#include "core/base/log.hpp"
#include "core/run/inputs.hpp"
#include "core/run/job.hpp"
#include "core/run/job_stages.hpp"
#include "core/runtime/place.hpp"
#include "core/stages/one_stage.hpp"
#include "core/workers/service.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;

// Whether the job and all its dependencies are sound.
bool is_sound(const RunFile& run, const JobSpec& job) {
  return job.sound && std::all_of(job.inputs.begin(), job.inputs.end(),
                                  [&](size_t input) { return is_sound(run, run.jobs[input]); });
}

// Checks a job that has other problems as far as possible: each stage that could be read, one by one.
void check_stages(JobCheck& check) {
  for (const auto& use : check.spec().components)
    if (use.id.starts_with("stage/")) check.stage(use);
}

bool is_in(const fs::path& path, const fs::path& folder) {
  const auto [end, ignored] = std::mismatch(folder.begin(), folder.end(), path.begin(), path.end());
  return end == folder.end();
}

}  // namespace

// Only the first line of a libtorch error is the message.
void JobCheck::problem(const Location& at, const std::string& message) {
  const Diagnostic said{at, "job '" + spec().name + "': " + message.substr(0, message.find('\n'))};
  const auto same = [&](const Diagnostic& p) { return format(p) == format(said); };  // two rules, one cause
  if (std::none_of(problems_.begin(), problems_.end(), same)) problems_.push_back(said);
}

void JobCheck::warning(const std::string& option, const std::string& message) const {
  if (!ahead_ || !here().first()) return;
  log_warn("{}", format(Diagnostic{spec().place(option), "job '" + spec().name + "': " + message}));
}

bool JobCheck::made_by_earlier_job(const fs::path& path) const {
  for (const auto& job : run().jobs) {
    if (job.name == spec().name) return false;
    if (is_in(path.lexically_normal(), folder_of(job))) return true;
  }
  return false;
}

bool JobCheck::finds(const std::string& option, const std::string& path) {
  std::error_code ignored;
  if (path.empty()) return false;
  if (fs::exists(path, ignored)) return true;
  if (!ahead_ || !made_by_earlier_job(path))
    problem(option, option + ": no such file or folder: " + path +
                        (spec().inputs.empty() ? "" : ", and no earlier job of the run makes it") +
                        "; fix the path");
  return false;
}

void JobCheck::stage(const ComponentUse& use) {
  const std::string name = use.called();
  const std::string prefix = "stage '" + name + "' (" + use.id + "): ";
  const auto said = [&](const std::string& message) {
    const std::string again = use.id + ": ";  // if the component has added its id itself
    return prefix + (message.starts_with(again) ? message.substr(again.size()) : message);
  };
  try {
    resources_of(*this, use);
    // Paths that a stage opens only with its first sample. A path option of a third-party stage may be an output.
    std::error_code ignored;
    for (const auto& path : use.options.paths())
      if (!path.empty() && !is_uri(path) && !fs::exists(path, ignored) &&
          !(ahead_ && made_by_earlier_job(path)) && own_stages(runtime().registry()).contains(use.id))
        problem(use.at, prefix + "no such file or folder: " + path + "; fix the path");
  } catch (const WorkerDied& e) {
    // Lack of memory is not the fault of a line of the file.
    if (e.killed) throw WorkerDied(e.code(), "job '" + spec().name + "': " + prefix + e.what(), e.how, true);
    problem(use.at, said(e.what()));
  } catch (const Error& e) {
    if (e.code() == KINORA_ERROR_CANCELLED) throw;
    problem(use.at, said(e.what()));
  } catch (const std::exception& e) {
    problem(use.at, said(e.what()));
  }
}

kinora_resources resources_of(const JobView& job, const ComponentUse& stage) {
  const std::string name = stage.called();
  if (may_run_apart(job.spec(), stage))
    return ask_apart({sizeof(kinora_worker_spec), 0, name.c_str(), stage.id.c_str(),
                      stage.options.canonical().c_str(), 0, 0, 0, 0});
  return OneStage(job.runtime(), stage.id, stage.options).resources();
}

void require(const JobContext& context) {
  std::vector<Diagnostic> problems;
  JobCheck asked(context.runtime(), context.run(), context.spec(), false, here().world, problems);
  job_type(context.runtime().registry(), *context.spec().kind).check(asked);
  if (problems.empty()) return;
  const std::string name = "job '" + context.spec().name + "': ";  // the catching code adds the name
  std::string all;
  for (const auto& p : problems) all += (all.empty() ? "" : "\n") + p.message.substr(name.size());
  throw Error(KINORA_ERROR_INVALID, all);
}

std::vector<Diagnostic> check_jobs(Runtime& runtime, const RunFile& run, const std::vector<bool>& which,
                                   int64_t ranks) {
  std::vector<Diagnostic> problems;
  for (size_t i = 0; i < run.jobs.size(); ++i) {
    const JobSpec& job = run.jobs[i];
    if (!which[i]) continue;
    JobCheck check(runtime, run, job, true, ranks, problems);
    if (!is_sound(run, job)) {
      check_stages(check);
      continue;
    }
    try {
      job_type(runtime.registry(), *job.kind).check(check);
    } catch (const WorkerDied&) {
      throw;
    } catch (const std::exception& e) {
      if (const auto* error = dynamic_cast<const Error*>(&e);
          error && error->code() == KINORA_ERROR_CANCELLED)
        throw;
      check.problem(job.at, e.what());
    }
  }
  return problems;
}

std::vector<Diagnostic> check_jobs(Runtime& runtime, const RunFile& run, int64_t ranks) {
  return check_jobs(runtime, run, std::vector<bool>(run.jobs.size(), true), ranks);
}

}  // namespace kinora::core
