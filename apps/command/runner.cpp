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
#include "core/run/job_folder.hpp"
#include "core/run/job_results.hpp"
#include "core/run/run_folder.hpp"
#include "core/runtime/place.hpp"
#include "host/stages/stage_check.hpp"

namespace kinora {

using namespace core;

namespace {

namespace fs = std::filesystem;

bool is_shared(const JobSpec& job) { return job.options.value("lease", 0.0) > 0; }

bool is_first_rank() { return here().first(); }

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
bool is_from_scratch(const JobSpec& job, const RunOptions& options) {
  return options.from_scratch && here().restart == 0 && (options.only.empty() || job.is_called(options.only));
}

// Whether the job is to run: it is not finished, or --only and --from-scratch name it. why: see
// JobIdentities::is_finished().
bool is_left(JobIdentities& identities, const JobSpec& job, const RunOptions& options,
             std::string* why = nullptr) {
  if (!options.only.empty() && is_from_scratch(job, options)) return true;
  return !identities.is_finished(job, why);
}

std::vector<bool> jobs_left(JobIdentities& identities, const RunOptions& options) {
  std::vector<bool> out = needed_jobs(identities.run(), options);
  for (size_t i = 0; i < out.size(); ++i)
    out[i] = out[i] && is_left(identities, identities.run().jobs[i], options);
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

// Whether the inputs of jobs that list them can be listed; otherwise it is unknown whether they have changed.
bool finds_inputs(JobIdentities& identities, const std::vector<bool>& needed) {
  const RunFile& run = identities.run();
  for (size_t i = 0; i < run.jobs.size(); ++i) {
    if (!needed[i] || !job_type(run, run.jobs[i]).lists_inputs()) continue;
    const auto listed = catching([&] { return identities.of(run.jobs[i]); });
    if (listed) continue;
    log_error("{}", listed.failure().message);
    return false;
  }
  return true;
}

// Whether no job that lists its inputs would replace what people have looked at; otherwise says which.
bool may_replace(JobIdentities& identities, const std::vector<bool>& needed) {
  const RunFile& run = identities.run();
  bool out = true;
  for (size_t i = 0; i < run.jobs.size(); ++i) {
    const JobSpec& job = run.jobs[i];
    if (!needed[i] || !job_type(run, job).lists_inputs()) continue;
    const fs::path folder = run.out / job.name;
    const std::string why = reason_to_keep(folder, identities.of(job));
    if (why.empty()) continue;
    log_error(
        "{}: its options differ from those of the results in {}, so it would replace them from scratch, and "
        "{}; choose "
        "another folder with --out, or replace them with --replace",
        job.name, folder.string(), why);
    out = false;
  }
  return out;
}

// Detects ranks of different launches or run files before any job begins.
RunResult meet_first_rank(JobIdentities& identities, const std::vector<bool>& jobs,
                          const LaunchPlace& place) {
  try {
    place.first() ? write_launch_record(identities, jobs) : await_launch_record(identities, jobs, place);
    return {.ok = !cancelled(), .was_cancelled = cancelled()};
  } catch (const Error& e) {
    log_error("{}", e.what());
    return {.was_refused = e.code() == KINORA_ERROR_INVALID};
  }
}

// Every rank checks; only rank 0 logs.
bool may_run(Runtime& runtime, const RunFile& run, const std::vector<bool>& jobs, int64_t ranks) {
  const auto problems = check_jobs(runtime, run, jobs, ranks);
  for (const auto& p : problems)
    if (is_first_rank()) log_error("{}", format(p));
  return problems.empty();
}

// Logs the line for a job whose results exist.
void say_done(const RunFile& run, const JobSpec& job, const RunOptions& options,
              const std::vector<bool>& again) {
  // After a restart the user has already seen this line.
  std::string said = job.name + ": already done";
  if (options.from_scratch && options.only.empty())
    said += "; --from-scratch runs a finished job again with --only " + job.name;
  log_line(here().restart > 0 ? KINORA_LOG_DEBUG : KINORA_LOG_INFO, said);
  if (options.dry) {
    if (const auto* read = reads_any(run, job, again))
      log_info("{}: would run again if {} then keeps other samples", job.name, read->name);
  } else if (const int64_t failed = failures_in(run.out / job.name);
             failed > 0 && job_type(run, job).lists_inputs()) {
    log_info("{}: {} in it; --retry-failed tries {} again", job.name,
             counted(failed, "failure is", "failures are"), failed == 1 ? "it" : "them");
  }
}

// Handles one job: already done, described by a dry run, refused, or run. again: jobs that retry their
// failures.
RunResult take_turn(Runtime& runtime, JobIdentities& identities, size_t place, const RunOptions& options,
                    const std::vector<bool>& again, fs::file_time_type since) {
  const RunFile& run = identities.run();
  const JobSpec& job = run.jobs[place];
  const bool tries_again = options.dry && again[place];
  std::string why;
  if (!tries_again && !is_left(identities, job, options, &why)) {
    say_done(run, job, options, again);
    return {true, false};
  }
  if (!why.empty()) log_warn("{}: {}; the job runs again", job.name, why);
  const JobIdentity identity = identities.of(job);
  if (!options.dry && is_first_rank()) identities.contents().save();
  const bool from_scratch = is_from_scratch(job, options);
  if (options.dry) {
    predict(JobView(runtime, run, job), identity, tries_again, from_scratch);
    return {true, false};
  }
  if (options.keeps_finished && is_done(run.out / job.name) && why.empty()) {
    log_error(
        "job '{}' in {} was made with other options or inputs than this file has now; repeat the --set that "
        "it was run "
        "with, or rerun it first: kinora run",
        job.name, run.out.string());
    return {false, false};
  }
  if (options.needs_finished && job.name != options.only) {
    log_error("job '{0}' in {1} is not finished; run it first: kinora run {2} --only {0}", job.name,
              run.out.string(), run.file.string());
    return {false, false};
  }
  log_info("{}: {}", job.name, job.kind->help);
  const RunResult result = run_job(runtime, run, job, identity, since, from_scratch);
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

// The jobs that are left to share, of which none writes to the run's folder before one process has it alone.
Result<std::vector<SharedJob>> jobs_to_share(Runtime& runtime, const RunFile& run,
                                             const RunOptions& options) {
  const std::vector<bool> needed = needed_jobs(run, options);
  JobIdentities identities(run);
  if (!finds_inputs(identities, needed)) return fail(KINORA_ERROR_FAILED, "");
  const std::vector<bool> left = jobs_left(identities, options);
  if (!may_run(runtime, run, left, 1)) return fail(KINORA_ERROR_INVALID, "");
  if (!options.replaces && !may_replace(identities, needed)) return fail(KINORA_ERROR_INVALID, "");
  std::vector<SharedJob> out;
  for (size_t i = 0; i < run.jobs.size(); ++i)
    if (left[i] && is_shared(run.jobs[i]))
      out.push_back({.spec = &run.jobs[i], .identity = identities.of(run.jobs[i])});
  return out;
}

// Does a share of each of these jobs. A failure is logged.
RunResult share(Runtime& runtime, const RunFile& run, std::vector<SharedJob>& jobs) {
  for (auto& [job, identity, is_elsewhere] : jobs) try {
      if (finished(run.out / job->name, identity.digest)) continue;
      log_info("{}: {}", job->name, job->kind->help);
      JobContext context(runtime, run, *job, false, identity, JobView(runtime, run, *job).shared_folder());
      is_elsewhere = !job_type(run, *job).share(context);
    } catch (const std::exception& e) {
      const auto* error = dynamic_cast<const Error*>(&e);
      if (cancelled() || (error && error->code() == KINORA_ERROR_CANCELLED)) return {false, true};
      log_error("job '{}' failed: {}", job->name, e.what());
      return {false, false};
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
Result<std::unique_ptr<Lease>> lease_after(const RunFile& run, const LaunchPlace& place,
                                           const std::vector<SharedJob>& jobs) {
  const auto is_finished = [&](const SharedJob& job) {
    return finished(run.out / job.spec->name, job.identity.digest);
  };
  for (;;) {
    auto taken = Lease::take(run.out, place, true);
    if (taken || taken.failure().code != KINORA_ERROR_FAILED || cancelled()) return taken;
    if (std::ranges::all_of(jobs, is_finished)) return std::unique_ptr<Lease>();
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
  }
}

// Runs the jobs in a folder that is this launch's.
RunResult run_needed(Runtime& runtime, const RunFile& run, const RunOptions& options,
                     const LaunchPlace& place, fs::file_time_type since) {
  const std::vector<bool> needed = needed_jobs(run, options);
  JobIdentities identities(run);
  if (options.retry_failed && !place.alone()) {
    if (place.first())
      log_error(
          "--retry-failed is for one process: kinora run FILE --only JOB --retry-failed, then start the "
          "ranks");
    return {.was_refused = true};
  }
  if (!finds_inputs(identities, needed)) return {.ok = false, .was_cancelled = cancelled()};
  if (!options.dry && place.first()) identities.adopt_results();
  std::vector<bool> again(run.jobs.size());
  if (options.retry_failed) {
    again = ask_again(identities, needed, options.dry);
    identities.forget();
  }
  const std::vector<bool> left = jobs_left(identities, options);
  if (!may_run(runtime, run, left, place.world)) return {.was_refused = true};
  if (place.first() && !options.replaces && !may_replace(identities, needed)) return {.was_refused = true};
  if (!options.dry && !place.alone() && std::ranges::find(left, true) != left.end()) {
    if (const RunResult met = meet_first_rank(identities, needed, place); !met.ok) return met;
    identities.forget();  // the first rank may have adopted results
  }
  for (size_t i = 0; i < run.jobs.size(); ++i)
    if (needed[i])
      if (const RunResult result = take_turn(runtime, identities, i, options, again, since); !result.ok)
        return result;
  return {true, false};
}

}  // namespace

bool may_begin(Runtime& runtime, const RunFile& run, const RunOptions& options, int64_t ranks) {
  JobIdentities identities(run);
  return may_run(runtime, run, jobs_left(identities, options), ranks);
}

bool is_shared(const RunFile& run, const RunOptions& options) {
  if (!here().alone() || options.dry || options.retry_failed || options.from_scratch) return false;
  const std::vector<bool> needed = needed_jobs(run, options);
  for (size_t i = 0; i < needed.size(); ++i)
    if (needed[i] && is_shared(run.jobs[i])) return true;
  return false;
}

RunResult run_jobs(Runtime& runtime, const RunFile& run, const RunOptions& options) {
  const auto since = fs::file_time_type::clock::now();
  const LaunchPlace place = here();
  if (!place.remark.empty()) log_warn("{}", place.remark);
  const std::vector<bool> needed = needed_jobs(run, options);
  const bool shares = !options.needs_finished && is_shared(run, options);
  std::vector<SharedJob> shared;
  if (shares) {
    auto jobs = jobs_to_share(runtime, run, options);
    if (!jobs)
      return {.was_cancelled = cancelled(), .was_refused = jobs.failure().code == KINORA_ERROR_INVALID};
    shared = *std::move(jobs);
    if (const RunResult done = share(runtime, run, shared); !done.ok) return done;
    if (std::ranges::any_of(shared, &SharedJob::is_elsewhere)) {
      log_info(
          "another process has taken the results to its own output folder, and runs the jobs after them");
      return {.ok = true, .is_elsewhere = true};
    }
  }
  std::unique_ptr<Lease> lease;
  if (!options.dry && place.first()) {
    auto taken = shares ? lease_after(run, place, shared) : Lease::take(run.out, place);
    if (!taken && cancelled()) return {.was_cancelled = true};
    if (!taken) {
      log_error("{}", taken.failure().message);
      return {.was_refused = taken.failure().code == KINORA_ERROR_INVALID};
    }
    lease = std::move(*taken);
    if (!lease) {
      drop_shared(run, needed);
      log_info("another process has put the results together, and runs the jobs after them");
      return {true, false};
    }
  } else if (!options.dry) {
    lease = Lease::follow(run.out, place);
  }
  if (lease && place.first() && options.from_scratch) drop_shared(run, needed);
  const RunResult result = run_needed(runtime, run, options, place, since);
  if (lease && lease->is_lost()) return {};
  if (lease && place.first() && result.ok) drop_shared(run, needed);
  return result;
}

}  // namespace kinora
