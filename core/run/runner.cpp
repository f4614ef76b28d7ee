#include "core/run/runner.hpp"

#include <chrono>
#include <ctime>
#include <fstream>
#include <optional>
#include <thread>

#include <fmt/ranges.h>

#include "core/base/cancel.hpp"
#include "core/base/log.hpp"
#include "core/base/quantity.hpp"
#include "core/io/atomic_file.hpp"
#include "core/run/identity.hpp"
#include "core/run/job.hpp"
#include "core/run/job_check.hpp"
#include "core/run/job_folder.hpp"
#include "core/run/place.hpp"
#include "core/run/run_folder.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

std::string now_utc() {
  const std::time_t now = std::time(nullptr);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", std::gmtime(&now));
  return text;
}

// Only rank 0 of a launch writes.
bool is_first_rank() { return here().first(); }
bool is_alone() { return here().alone(); }

// Waits until rank 0 has finished the job or failed: rank 0 finishes every job, and does all work of a job
// that is not spread over ranks. since: the run's start, because rank 0 may have failed before this call.
RunResult wait_for(const fs::path& folder, const std::string& name, const std::string& digest,
                   fs::file_time_type since) {
  FirstRank first(folder.parent_path(), here());
  for (int64_t tenths = 1; !finished(folder, digest); ++tenths) {
    if (cancelled()) return {false, true};
    if (tenths % 10 == 0 && !first.is_there()) {
      log_error("job '{}': rank 0 no longer runs in {}; start all ranks again, they resume", name,
                folder.parent_path().string());
      return {false, false};
    }
    if (const auto why = failure_left(folder, digest, since)) {
      log_error("job '{}' failed on rank 0: {}", name, *why);
      return {false, false};
    }
    if (tenths % 600 == 0) log_info("{}: waiting for rank 0, {} min", name, tenths / 600);
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  return {true, false};
}

// Says in metrics.prom, for collectors, whether a job has ended, next to the figures that the job writes itself.
class EndInMetrics {
 public:
  EndInMetrics(fs::path folder, std::string job)
      : file_(std::move(folder) / "metrics.prom"), job_(std::move(job)) {
    if (const auto status = write("", false); !status)
      log_warn("{}: {}; the job continues without it", job_, status.failure().message);
  }
  EndInMetrics(const EndInMetrics&) = delete;
  EndInMetrics& operator=(const EndInMetrics&) = delete;
  ~EndInMetrics() {
    std::ifstream in(file_);
    std::string figures;
    for (std::string line; std::getline(in, line);)
      if (line.find("kinora_job_ended") == std::string::npos &&
          line.find("kinora_job_updated_seconds") == std::string::npos)
        figures += line + "\n";
    (void)write(figures, true);  // a full disk is said elsewhere
  }

 private:
  Status write(const std::string& figures, bool has_ended) const {
    return write_file_atomically(
        file_,
        fmt::format("{}# HELP kinora_job_ended 1 when the job has ended\n"
                    "# TYPE kinora_job_ended gauge\n"
                    "kinora_job_ended{{job=\"{}\"}} {:d}\n"
                    "# HELP kinora_job_updated_seconds Time when these figures were written, in seconds "
                    "since 1970\n"
                    "# TYPE kinora_job_updated_seconds gauge\n"
                    "kinora_job_updated_seconds{{job=\"{}\"}} {}\n",
                    figures, job_, has_ended, job_, std::time(nullptr)));
  }

  const fs::path file_;
  const std::string job_;
};

constexpr const char* kTakenBack = "{}: already done before its options were changed; those results are back";

// Returns the content of job.json. The titles of scores do not belong to the job's identity.
json described(const RunFile& run, const JobSpec& job) {
  json spec = spec_json(job);
  if (job.draws()) spec["seed"] = run.seed;
  if (const auto grows_by = job_type(run, job).grows_by(); !grows_by.empty()) spec["grows_by"] = grows_by;
  if (!run.file.empty() && job_type(run, job).lists_inputs())
    spec["file"] = fs::weakly_canonical(fs::absolute(run.file)).string();
  for (const auto& use : job.components)
    if (const auto of = run.registry->find(use.id))
      for (const auto& score : (*of)->scores)
        spec["scores"][score.name] = {{"title", score.title}, {"unit", score.unit}};
  return spec;
}

// Whether a job neither runs stages over videos nor needs a network: select, dedup, shard and report jobs.
bool is_quick(const RunFile& run, const JobSpec& job) {
  return !job_type(run, job).lists_inputs() && !job.kind->has_tensors;
}

// Keeps the time of a run that does not finish its job, for the one that does.
class Spent {
 public:
  Spent(fs::path folder, Clock::time_point start) : folder_(std::move(folder)), start_(start) {}
  Spent(const Spent&) = delete;
  Spent& operator=(const Spent&) = delete;
  ~Spent() {
    if (!is_done_) add_spent(folder_, now());
  }
  // Ends it: the time of all runs of the job.
  double whole() {
    is_done_ = true;
    return spent_before(folder_) + now();
  }

 private:
  double now() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }
  const fs::path folder_;
  const Clock::time_point start_;
  bool is_done_ = false;
};

// Logs what a run would do about an unfinished job; runs nothing. again: its failures would be tried again.
void foresee(Runtime& runtime, const RunFile& run, const JobSpec& job, const std::string& digest, bool again,
             bool from_scratch) {
  const fs::path folder = run.out / job.name;
  if (from_scratch) return log_info("{}: would run from scratch ({})", job.name, job.kind->help);
  if (!again && may_take_back(folder, digest)) return log_info(kTakenBack, job.name);
  if (!again) log_info("{}: would run ({})", job.name, job.kind->help);
  const std::string base = job_base(run, job);
  const Beginning begins = beginning(folder, job.name, described(run, job), digest, base, is_quick(run, job));
  if (!begins.said.empty()) log_line(begins.warns ? KINORA_LOG_WARN : KINORA_LOG_INFO, begins.said);
  job_type(run, job).foresee(runtime, run, job, begins.from, retries(folder, base) + again);
}

// Runs one job. A failure is logged and never thrown.
RunResult run_one(Runtime& runtime, const RunFile& run, const JobSpec& job, const std::string& digest,
                  fs::file_time_type since, bool from_scratch) {
  const auto start = Clock::now();
  const fs::path folder = run.out / job.name;
  if (!is_first_rank() && !job.kind->is_spread()) return wait_for(folder, job.name, digest, since);
  try {
    // Ranks that compute together cannot see that rank 0 has nothing left to do.
    const bool may_take_back = !from_scratch && is_first_rank() && (is_alone() || !job.kind->is_spread());
    if (may_take_back && take_back(folder, digest)) {
      log_info(kTakenBack, job.name);
      return {true, false};
    }
    const std::string base = job_base(run, job);
    const JobType& type = job_type(run, job);
    std::optional<AtomicFolder> beside;
    if (is_first_rank() && type.replaces_at_once())
      beside = prepare_beside(folder, job.name, described(run, job), digest);
    if (is_first_rank() && !beside)
      prepare_folder(folder, job.name, described(run, job), digest, base, is_quick(run, job), from_scratch);
    const fs::path work = beside ? beside->temporary() : folder;
    std::optional<Spent> spent;
    if (is_first_rank() && !beside) spent.emplace(folder, start);
    std::optional<EndInMetrics> metrics;
    if (is_first_rank()) metrics.emplace(work, job.name);
    JobContext context(runtime, run, job, is_first_rank(), work);
    type.run(context);
    if (cancelled()) return {false, true};
    // The next job reads results that rank 0 has not written yet.
    if (!is_first_rank()) return wait_for(folder, job.name, digest, since);
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    context.summary.update({{"job", job.name},
                            {"kind", job.kind->name},
                            {"status", "done"},
                            {"digest", digest},
                            {"seconds", spent ? spent->whole() : seconds},
                            {"finished", now_utc()}});
    context.summary["results"].update(results_in(work));
    or_throw(write_file_atomically(
        work / "summary.json", context.summary.dump(2, ' ', false, json::error_handler_t::replace) + "\n"));
    metrics.reset();
    if (beside) or_throw(beside->commit(true));
    drop_before(folder);
    if (const std::string line = type.result_line(context.summary); !line.empty())
      log_info("{}: {}", job.name, line);
    log_info("{}: done in {:.1f} s", job.name, seconds);
    return {true, false};
  } catch (const std::exception& e) {
    const auto* error = dynamic_cast<const Error*>(&e);
    if (error && error->code() == KINORA_ERROR_CANCELLED) return {false, true};
    if (cancelled()) {  // a rank that stops because another failed logs what it waited for
      log_warn("job '{}' was stopped: {}", job.name, e.what());
      return {false, true};
    }
    log_error("job '{}' failed: {}", job.name, e.what());
    if (is_first_rank()) {
      leave_failure(folder, digest, e.what());
      if (take_back_after_failure(folder) || is_done(folder))
        log_info("{}: the results from before are kept", job.name);
    }
    return {false, false};
  }
}

void mark_needed(const RunFile& run, size_t job, std::vector<bool>& needed) {
  needed[job] = true;
  for (size_t input : run.jobs[job].inputs) mark_needed(run, input, needed);
}

std::vector<bool> needed_jobs(const RunFile& run, const RunOptions& options) {
  std::vector<bool> needed(run.jobs.size(), options.only.empty());
  for (size_t i = 0; i < run.jobs.size(); ++i)
    if (run.jobs[i].name == options.only) mark_needed(run, i, needed);
  return needed;
}

bool any_left(const RunFile& run, const std::vector<bool>& jobs) {
  for (size_t i = 0; i < run.jobs.size(); ++i)
    if (jobs[i] && !finished(run.out / run.jobs[i].name, job_digest(run, run.jobs[i]))) return true;
  return false;
}

// The jobs with failed inputs to try again; they no longer count as finished.
std::vector<bool> ask_again(const RunFile& run, const std::vector<bool>& needed, bool dry) {
  std::vector<bool> out(run.jobs.size());
  for (size_t i = 0; i < run.jobs.size(); ++i) {
    const JobSpec& job = run.jobs[i];
    const fs::path folder = run.out / job.name;
    if (!needed[i] || !job_type(run, job).lists_inputs()) continue;
    const int64_t failed = is_done(folder) ? failures_in(folder) : 0;
    if (dry && failed > 0)
      log_info("{}: would try again {}", job.name, counted(failed, "failure", "failures"));
    if (!dry && (failed > 0 || !is_done(folder))) count_retry(folder, job_base(run, job));
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
bool finds_inputs(const RunFile& run, const std::vector<bool>& needed) {
  for (size_t i = 0; i < run.jobs.size(); ++i) {
    if (!needed[i] || !job_type(run, run.jobs[i]).lists_inputs()) continue;
    const auto listed = catching([&] { return job_digest(run, run.jobs[i]); });
    if (listed) continue;
    log_error("{}", listed.failure().message);
    return false;
  }
  return true;
}

// Whether no job that lists its inputs would replace what people have looked at; otherwise says which.
bool may_replace(const RunFile& run, const std::vector<bool>& needed) {
  bool out = true;
  for (size_t i = 0; i < run.jobs.size(); ++i) {
    const JobSpec& job = run.jobs[i];
    if (!needed[i] || !job_type(run, job).lists_inputs()) continue;
    const fs::path folder = run.out / job.name;
    const std::string why =
        reason_to_keep(folder, described(run, job), job_digest(run, job), job_base(run, job));
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
RunResult meet_first_rank(const RunFile& run, const std::vector<bool>& jobs, const LaunchPlace& place) {
  try {
    place.first() ? write_launch_record(run, jobs) : await_launch_record(run, jobs, place);
    return {.ok = !cancelled(), .was_cancelled = cancelled()};
  } catch (const Error& e) {
    log_error("{}", e.what());
    return {.was_refused = e.code() == KINORA_ERROR_INVALID};
  }
}

}  // namespace

// Every rank checks; only rank 0 logs.
bool may_begin(Runtime& runtime, const RunFile& run, const RunOptions& options, int64_t ranks) {
  std::vector<bool> which = needed_jobs(run, options);
  for (size_t i = 0; i < run.jobs.size(); ++i)
    which[i] = which[i] && !finished(run.out / run.jobs[i].name, job_digest(run, run.jobs[i]));
  const auto problems = check_jobs(runtime, run, which, ranks);
  for (const auto& p : problems)
    if (is_first_rank()) log_error("{}", format(p));
  return problems.empty();
}

namespace {

// Logs the line for a job whose results exist.
void say_done(const RunFile& run, const JobSpec& job, const RunOptions& options,
              const std::vector<bool>& again) {
  // After a restart the user has already seen this line.
  log_line(here().restart > 0 ? KINORA_LOG_DEBUG : KINORA_LOG_INFO, job.name + ": already done");
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
RunResult take_turn(Runtime& runtime, const RunFile& run, size_t place, const RunOptions& options,
                    const std::vector<bool>& again, fs::file_time_type since) {
  const JobSpec& job = run.jobs[place];
  const std::string digest = job_digest(run, job);
  const bool tries_again = options.dry && again[place];
  std::string why;
  if (!tries_again && finished(run.out / job.name, digest, &why)) {
    say_done(run, job, options, again);
    return {true, false};
  }
  if (!why.empty()) log_warn("{}: {}; the job runs again", job.name, why);
  // A launch that starts again after a lost rank continues what it has done since.
  const bool from_scratch =
      options.from_scratch && here().restart == 0 && (options.only.empty() || options.only == job.name);
  if (options.dry) {
    foresee(runtime, run, job, digest, tries_again, from_scratch);
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
  log_info("{}: {}", job.name, job.kind->help);
  const RunResult result = run_one(runtime, run, job, digest, since, from_scratch);
  if (!result.ok && options.is_trial && job.name == options.only) drop_if_empty(run.out / job.name);
  return result;
}

}  // namespace

RunResult run_jobs(Runtime& runtime, const RunFile& run, const RunOptions& options) {
  const auto since = fs::file_time_type::clock::now();
  const LaunchPlace place = here();
  if (!place.remark.empty()) log_warn("{}", place.remark);
  std::optional<FolderLock> lock;
  if (!options.dry && is_first_rank()) {
    auto taken = FolderLock::take(run.out);
    if (!taken) {
      log_error("{}", taken.failure().message);
      return {false, false};
    }
    lock.emplace(std::move(*taken));
  }
  const std::vector<bool> needed = needed_jobs(run, options);
  if (options.retry_failed && !place.alone()) {
    if (place.first())
      log_error(
          "--retry-failed is for one process: kinora run FILE --only JOB --retry-failed, then start the "
          "ranks");
    return {.was_refused = true};
  }
  if (!finds_inputs(run, needed)) return {.ok = false, .was_cancelled = cancelled()};
  std::vector<bool> again(run.jobs.size());
  if (options.retry_failed) again = ask_again(run, needed, options.dry);
  if (!may_begin(runtime, run, options, place.world)) return {.was_refused = true};
  if (place.first() && !options.replaces && !may_replace(run, needed)) return {.was_refused = true};
  if (!options.dry && !place.alone() && any_left(run, needed)) {
    if (const RunResult met = meet_first_rank(run, needed, place); !met.ok) return met;
  }
  for (size_t i = 0; i < run.jobs.size(); ++i)
    if (needed[i])
      if (const RunResult result = take_turn(runtime, run, i, options, again, since); !result.ok)
        return result;
  return {true, false};
}

}  // namespace kinora::core
