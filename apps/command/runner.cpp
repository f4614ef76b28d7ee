#include "apps/command/runner.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

#include "apps/command/job_turn.hpp"
#include "apps/command/lease.hpp"
#include "core/base/cancel.hpp"
#include "core/base/log.hpp"
#include "core/base/quantity.hpp"
#include "core/run/identity.hpp"
#include "core/run/job.hpp"
#include "core/run/job_check.hpp"
#include "core/run/job_folder.hpp"
#include "core/run/job_results.hpp"
#include "core/run/run_folder.hpp"
#include "host/stages/stage_check.hpp"

namespace kinora {

using namespace core;

namespace {

namespace fs = std::filesystem;

// Logs why nothing runs.
RunResult refused(const std::vector<std::string>& why) {
  for (const auto& line : why) run_failed(line);
  return {.was_refused = true};
}

bool is_shared(const JobSpec& job) { return job.options.value("lease", 0.0) > 0; }

void mark_needed(const RunFile& run, size_t job, std::vector<bool>& needed) {
  needed[job] = true;
  for (size_t input : run.jobs[job].inputs) mark_needed(run, input, needed);
}

std::vector<bool> needed_jobs(const RunFile& run, const RunOptions& options) {
  std::vector<bool> needed(run.jobs.size(), options.only.empty());
  for (size_t i = 0; i < run.jobs.size(); ++i)
    if (run.jobs[i].is_called(options.only)) mark_needed(run, i, needed);
  return needed;
}

// Whether --from-scratch is about the job. A launch that starts again after a lost rank continues what it has
// done since.
bool is_from_scratch(const Launch& launch, const JobSpec& job) {
  const RunOptions& options = launch.options;
  return options.from_scratch && launch.place.restart == 0 &&
         (options.only.empty() || job.is_called(options.only));
}

// Whether the job is to run: it is not finished, or --only and --from-scratch name it. why: see
// JobIdentities::is_finished().
bool is_left(const Launch& launch, JobIdentities& identities, const JobSpec& job,
             std::string* why = nullptr) {
  if (!launch.options.only.empty() && is_from_scratch(launch, job)) return true;
  return !identities.is_finished(job, why);
}

std::vector<bool> jobs_left(const Launch& launch, JobIdentities& identities) {
  std::vector<bool> out = needed_jobs(launch.run, launch.options);
  for (size_t i = 0; i < out.size(); ++i) out[i] = out[i] && is_left(launch, identities, launch.run.jobs[i]);
  return out;
}

// The jobs with failed inputs to try again; they no longer count as finished.
std::vector<bool> ask_again(JobIdentities& identities, const std::vector<bool>& needed, bool dry) {
  const RunFile& run = identities.run();
  std::vector<bool> out(run.jobs.size());
  for (size_t i = 0; i < run.jobs.size(); ++i) {
    const JobSpec& job = run.jobs[i];
    const fs::path folder = run.out / job.name;
    if (!needed[i] || !job_type(run, job).lists_inputs()) continue;
    const int64_t failed = is_done(folder) ? failures_in(folder) : 0;
    if (dry && failed > 0)
      log_info("{}: would try again {}", job.name, counted(failed, "failure", "failures"));
    if (!dry && (failed > 0 || !is_done(folder))) count_retry(folder, identities.of(job).base);
    out[i] = failed > 0;
  }
  return out;
}

// The first of these jobs that `job` depends on; null: none.
const JobSpec* reads_any(const RunFile& run, const JobSpec& job, const std::vector<bool>& jobs) {
  for (const size_t input : job.inputs) {
    if (jobs[input]) return &run.jobs[input];
    if (const auto* found = reads_any(run, run.jobs[input], jobs)) return found;
  }
  return nullptr;
}

// Lists the inputs of jobs that list them: if one cannot be listed, it is unknown whether they have changed.
RunResult find_inputs(JobIdentities& identities, const std::vector<bool>& needed) {
  const RunFile& run = identities.run();
  for (size_t i = 0; i < run.jobs.size(); ++i) {
    if (!needed[i] || !job_type(run, run.jobs[i]).lists_inputs()) continue;
    const auto listed = catching([&] { return identities.of(run.jobs[i]); });
    if (!listed) return run_failed(listed.failure().message);
  }
  return {.ok = true};
}

// Refuses to run if a job that lists its inputs would replace what people have looked at.
RunResult may_replace(JobIdentities& identities, const std::vector<bool>& needed) {
  const RunFile& run = identities.run();
  std::vector<std::string> kept;
  for (size_t i = 0; i < run.jobs.size(); ++i) {
    const JobSpec& job = run.jobs[i];
    if (!needed[i] || !job_type(run, job).lists_inputs()) continue;
    const fs::path folder = run.out / job.name;
    const std::string why = reason_to_keep(folder, identities.of(job));
    if (!why.empty())
      kept.push_back(fmt::format(
          "{}: its options differ from those of the results in {}, so it would replace them from scratch, "
          "and {}; choose another folder with --out, or replace them with --replace",
          job.name, folder.string(), why));
  }
  return kept.empty() ? RunResult{.ok = true} : refused(kept);
}

// Detects ranks of different launches or run files before any job begins.
RunResult meet_first_rank(const LaunchPlace& place, JobIdentities& identities,
                          const std::vector<bool>& jobs) {
  try {
    place.first() ? write_launch_record(identities, jobs) : await_launch_record(identities, jobs, place);
    return {.ok = !cancelled(), .was_cancelled = cancelled()};
  } catch (const Error& e) {
    return run_failed(e.what(), e.code() == KINORA_ERROR_INVALID);
  }
}

// Every rank checks; only rank 0 logs. ranks: of the launch that is to run them.
RunResult may_run(const Launch& launch, const std::vector<bool>& jobs, int64_t ranks) {
  std::vector<std::string> problems;
  for (const auto& problem : check_jobs(launch.runtime, launch.run, jobs, ranks))
    problems.push_back(format(problem));
  if (problems.empty()) return {.ok = true};
  return refused(launch.place.first() ? problems : std::vector<std::string>());
}

// Logs the line for a job whose results exist.
void say_done(const Launch& launch, const JobSpec& job, const std::vector<bool>& again) {
  const RunFile& run = launch.run;
  const RunOptions& options = launch.options;
  const JobSpec* read = options.dry ? reads_any(run, job, again) : nullptr;
  const int64_t failures = options.dry ? 0 : failures_in(run.out / job.name);
  std::string said = job.name + ": already done";
  if (options.from_scratch && options.only.empty())
    said += "; --from-scratch runs a finished job again with --only " + job.name;
  // After a restart the user has already seen this line.
  log_line(launch.place.restart > 0 ? KINORA_LOG_DEBUG : KINORA_LOG_INFO, said);
  if (read) log_info("{}: would run again if {} then keeps other samples", job.name, read->name);
  if (failures > 0 && job_type(run, job).lists_inputs())
    log_info("{}: {} in it; --retry-failed tries {} again", job.name,
             counted(failures, "failure is", "failures are"), failures == 1 ? "it" : "them");
}

// Handles one job: already done, described by a dry run, refused, or run. again: jobs that retry their
// failures.
RunResult take_turn(const Launch& launch, JobIdentities& identities, size_t at,
                    const std::vector<bool>& again) {
  const RunFile& run = launch.run;
  const RunOptions& options = launch.options;
  const JobSpec& job = run.jobs[at];
  const bool tries_again = options.dry && again[at];
  std::string why;
  if (!tries_again && !is_left(launch, identities, job, &why)) {
    say_done(launch, job, again);
    return {true, false};
  }
  if (!why.empty()) log_warn("{}: {}; the job runs again", job.name, why);
  const JobIdentity identity = identities.of(job);
  if (!options.dry && launch.place.first()) identities.contents().save();
  const bool from_scratch = is_from_scratch(launch, job);
  if (options.dry) {
    predict(JobView(launch.runtime, run, job), identity, tries_again, from_scratch);
    return {true, false};
  }
  if (options.keeps_finished && is_done(run.out / job.name) && why.empty())
    return run_failed(
        fmt::format("job '{}' in {} was made with other options or inputs than this file has now; repeat "
                    "the --set that it was run with, or rerun it first: kinora run",
                    job.name, run.out.string()));
  if (options.needs_finished && job.name != options.only)
    return run_failed(fmt::format("job '{0}' in {1} is not finished; run it first: kinora run {2} --only {0}",
                                  job.name, run.out.string(), run.file.string()));
  log_info("{}: begins", job.name);
  const RunResult result = run_job(launch, job, identity, from_scratch);
  identities.forget();
  if (!result.ok && options.is_trial && job.name == options.only) drop_if_empty(run.out / job.name);
  return result;
}

// A job whose work several processes share, until it is finished.
struct SharedJob {
  const JobSpec* spec;
  JobIdentity identity;
  bool is_elsewhere = false;  // another process, with another output folder, puts the results together
};

// Finds the jobs that are left to share, of which none writes to the run's folder before one process has it alone.
RunResult find_shared(const Launch& launch, JobIdentities& identities, std::vector<SharedJob>& out) {
  const RunFile& run = launch.run;
  const std::vector<bool> needed = needed_jobs(run, launch.options);
  if (const RunResult found = find_inputs(identities, needed); !found.ok) return found;
  const std::vector<bool> left = jobs_left(launch, identities);
  if (const RunResult may = may_run(launch, left, 1); !may.ok) return may;
  if (!launch.options.replaces)
    if (const RunResult may = may_replace(identities, needed); !may.ok) return may;
  for (size_t i = 0; i < run.jobs.size(); ++i)
    if (left[i] && is_shared(run.jobs[i]))
      out.push_back({.spec = &run.jobs[i], .identity = identities.of(run.jobs[i])});
  return {.ok = true};
}

// Does a share of each of these jobs. A failure is logged.
RunResult share(const Launch& launch, std::vector<SharedJob>& jobs) {
  const RunFile& run = launch.run;
  for (auto& [job, identity, is_elsewhere] : jobs) try {
      if (finished(run.out / job->name, identity.digest)) continue;
      log_info("{}: begins", job->name);
      const fs::path folder = JobView(launch.runtime, run, *job).shared_folder();
      JobContext context(launch.runtime, run, *job, false, identity, folder);
      require(context);
      is_elsewhere = !job_type(run, *job).share(context);
    } catch (const std::exception& e) {
      const auto* error = dynamic_cast<const Error*>(&e);
      if (cancelled() || (error && error->code() == KINORA_ERROR_CANCELLED)) return {false, true};
      return run_failed(fmt::format("job '{}' failed: {}", job->name, e.what()));
    }
  return {true, false};
}

// Removes what processes have shared of these jobs.
void drop_shared(const RunFile& run, const std::vector<bool>& needed) {
  std::error_code ignored;  // another process may still look there, and then ends
  for (size_t i = 0; i < run.jobs.size(); ++i)
    if (needed[i]) fs::remove_all(run.out / ".leases" / run.jobs[i].name, ignored);
  fs::remove(run.out / ".leases", ignored);
}

// The folder's lease; nothing: another process has it, and has finished these jobs.
Result<std::unique_ptr<Lease>> lease_after(const Launch& launch, const std::vector<SharedJob>& jobs) {
  const auto is_finished = [&](const SharedJob& job) {
    return finished(launch.run.out / job.spec->name, job.identity.digest);
  };
  for (;;) {
    auto taken = Lease::take(launch.run.out, launch.place, true);
    if (taken || taken.failure().code != KINORA_ERROR_FAILED || cancelled()) return taken;
    if (std::ranges::all_of(jobs, is_finished)) return std::unique_ptr<Lease>();
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
  }
}

// Whether no other process shares the work of one of these jobs, so that this one may run them; otherwise says which.
bool may_run_alone(Runtime& runtime, const RunFile& run, const std::vector<bool>& needed) {
  for (size_t i = 0; i < run.jobs.size(); ++i) {
    if (!needed[i]) continue;
    const Status found = job_type(run, run.jobs[i]).is_not_shared(JobView(runtime, run, run.jobs[i]));
    if (found) continue;
    if (!cancelled()) log_error("{}", found.failure().message);
    return false;
  }
  return true;
}

// Runs the jobs in a folder that is this launch's. A job that processes have shared keeps the inputs that it has
// shared, whatever has come since.
RunResult run_needed(const Launch& launch, JobIdentities& identities) {
  const RunFile& run = launch.run;
  const RunOptions& options = launch.options;
  const LaunchPlace& place = launch.place;
  const std::vector<bool> needed = needed_jobs(run, options);
  if (options.retry_failed && !place.alone()) {
    const char* why =
        "--retry-failed is for one process: kinora run FILE --only JOB --retry-failed, then start the ranks";
    return refused(place.first() ? std::vector<std::string>{why} : std::vector<std::string>());
  }
  if (RunResult found = find_inputs(identities, needed); !found.ok) {
    found.was_cancelled = cancelled();
    return found;
  }
  if (!options.dry && place.first()) identities.adopt_results();
  std::vector<bool> again(run.jobs.size());
  if (options.retry_failed) {
    again = ask_again(identities, needed, options.dry);
    identities.forget();
  }
  const std::vector<bool> left = jobs_left(launch, identities);
  if (const RunResult may = may_run(launch, left, place.world); !may.ok) return may;
  if (place.first() && !options.replaces)
    if (const RunResult may = may_replace(identities, needed); !may.ok) return may;
  if (!options.dry && !place.alone() && std::ranges::find(left, true) != left.end()) {
    if (const RunResult met = meet_first_rank(place, identities, needed); !met.ok) return met;
    identities.forget();  // the first rank may have adopted results
  }
  for (size_t i = 0; i < run.jobs.size(); ++i)
    if (needed[i])
      if (const RunResult result = take_turn(launch, identities, i, again); !result.ok) return result;
  return {true, false};
}

bool is_shared(const RunFile& run, const RunOptions& options, const LaunchPlace& place) {
  if (!place.alone() || options.dry || options.retry_failed || options.from_scratch) return false;
  const std::vector<bool> needed = needed_jobs(run, options);
  for (size_t i = 0; i < needed.size(); ++i)
    if (needed[i] && is_shared(run.jobs[i])) return true;
  return false;
}

}  // namespace

RunResult run_failed(const std::string& why, bool was_refused) {
  log_error("{}", why);
  return {.was_refused = was_refused};
}

bool may_begin(Runtime& runtime, const RunFile& run, const RunOptions& options, int64_t ranks) {
  JobIdentities identities(run);
  const Launch launch{runtime, run, options, here(), {}};
  return may_run(launch, jobs_left(launch, identities), ranks).ok;
}

bool is_shared(const RunFile& run, const RunOptions& options) { return is_shared(run, options, here()); }

RunResult run_jobs(Runtime& runtime, const RunFile& run, const RunOptions& options) {
  const Launch launch{runtime, run, options, here(), fs::file_time_type::clock::now()};
  const LaunchPlace& place = launch.place;
  if (!place.remark.empty()) log_warn("{}", place.remark);
  const std::vector<bool> needed = needed_jobs(run, options);
  const bool shares = !options.needs_finished && is_shared(run, options, place);
  JobIdentities identities(run);
  std::vector<SharedJob> shared;
  if (shares) {
    if (RunResult found = find_shared(launch, identities, shared); !found.ok) {
      found.was_cancelled = cancelled();
      return found;
    }
    if (const auto free = Lease::may_share(run.out); !free)  // again: to list the inputs takes its time
      return run_failed(free.failure().message, false);
    if (const RunResult done = share(launch, shared); !done.ok) return done;
    if (std::ranges::any_of(shared, &SharedJob::is_elsewhere)) {
      log_info(
          "another process has taken the results to its own output folder, and runs the jobs after them");
      return {.ok = true, .is_elsewhere = true};
    }
  }
  const bool is_sole = !shares && !options.dry && place.first();
  if (is_sole && !may_run_alone(runtime, run, needed)) return {.was_cancelled = cancelled()};
  std::unique_ptr<Lease> lease;
  if (!options.dry && place.first()) {
    auto taken = shares ? lease_after(launch, shared) : Lease::take(run.out, place);
    if (!taken && cancelled()) return {.was_cancelled = true};
    if (!taken) return run_failed(taken.failure().message, taken.failure().code == KINORA_ERROR_INVALID);
    lease = std::move(*taken);
    if (!lease) {
      drop_shared(run, needed);
      log_info("another process has put the results together, and runs the jobs after them");
      return {true, false};
    }
  } else if (!options.dry) {
    lease = Lease::follow(run.out, place);
  }
  // Again: a process that shares may have begun before the lease was taken.
  if (is_sole && !may_run_alone(runtime, run, needed)) return {.was_cancelled = cancelled()};
  if (lease && place.first() && options.from_scratch) drop_shared(run, needed);
  identities.forget();  // other processes may have changed results in the folder
  const RunResult result = run_needed(launch, identities);
  if (lease && lease->is_lost()) return {};
  if (lease && place.first() && result.ok) drop_shared(run, needed);
  return result;
}

}  // namespace kinora
