#include "host/stages/stage_check.hpp"

#include <algorithm>

#include "core/run/inputs.hpp"
#include "core/run/job_stages.hpp"
#include "host/stages/one_stage.hpp"
#include "host/workers/service.hpp"

namespace kinora::core {

namespace fs = std::filesystem;

kinora_resources resources_of(const JobView& job, const ComponentUse& stage) {
  const std::string name = stage.called();
  if (workers_are_offered() && may_run_apart(job.spec(), stage))
    return ask_apart({sizeof(kinora_worker_spec), 0, name.c_str(), stage.id.c_str(),
                      stage.options.canonical().c_str(), 0, 0, 0, 0});
  return OneStage(job.runtime(), stage.id, stage.options).resources();
}

void check_stage(JobCheck& check, const ComponentUse& use) {
  const std::string name = use.called();
  const std::string prefix = "stage '" + name + "' (" + use.id + "): ";
  const auto said = [&](const std::string& message) {
    const std::string again = use.id + ": ";  // if the component has added its id itself
    return prefix + (message.starts_with(again) ? message.substr(again.size()) : message);
  };
  try {
    resources_of(check, use);
    // Paths that a stage opens only with its first sample. A path option of a third-party stage may be an output.
    std::error_code ignored;
    for (const auto& path : use.options.paths())
      if (!path.empty() && !is_uri(path) && !fs::exists(path, ignored) &&
          !(check.ahead() && check.made_by_earlier_job(path)) &&
          own_stages(check.runtime().registry()).contains(use.id))
        check.problem(use.at, prefix + "no such file or folder: " + path + "; fix the path");
  } catch (const WorkerDied& e) {
    // Lack of memory is not the fault of a line of the file.
    if (e.killed)
      throw WorkerDied(e.code(), "job '" + check.spec().name + "': " + prefix + e.what(), e.how, true);
    check.problem(use.at, said(e.what()));
  } catch (const Error& e) {
    if (e.code() == KINORA_ERROR_CANCELLED) throw;
    check.problem(use.at, said(e.what()));
  } catch (const std::exception& e) {
    check.problem(use.at, said(e.what()));
  }
}

namespace {

// Whether the job and all its dependencies are sound.
bool is_sound(const RunFile& run, const JobSpec& job) {
  return job.sound && std::all_of(job.inputs.begin(), job.inputs.end(),
                                  [&](size_t input) { return is_sound(run, run.jobs[input]); });
}

// Checks a job that has other problems as far as possible: each stage that could be read, one by one.
void check_stages(JobCheck& check) {
  for (const auto& use : check.spec().components)
    if (use.id.starts_with("stage/")) check_stage(check, use);
}

}  // namespace

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
