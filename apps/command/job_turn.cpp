#include "apps/command/job_turn.hpp"

#include <chrono>
#include <ctime>
#include <fstream>
#include <optional>
#include <thread>

#include "core/base/cancel.hpp"
#include "core/base/clock.hpp"
#include "core/base/log.hpp"
#include "core/io/atomic_file.hpp"
#include "core/io/fence.hpp"
#include "core/run/job.hpp"
#include "core/run/job_check.hpp"
#include "core/run/job_folder.hpp"
#include "core/run/job_results.hpp"
#include "core/run/run_folder.hpp"

namespace kinora {

using namespace core;

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

// Waits until rank 0 has finished the job or failed: rank 0 finishes every job, and does all work of a job
// that is not spread over ranks. It may have failed before this call.
RunResult wait_for(const Launch& launch, const std::string& name, const std::string& digest) {
  const fs::path folder = launch.run.out / name;
  FirstRank first(launch.run.out, launch.place);
  for (int64_t tenths = 1; !finished(folder, digest); ++tenths) {
    if (cancelled()) return {false, true};
    if (tenths % 10 == 0 && !first.is_there())
      return run_failed(
          fmt::format("job '{}': rank 0 no longer runs in {}; start all ranks again, they resume", name,
                      launch.run.out.string()));
    if (const auto why = failure_left(folder, digest, launch.since))
      return run_failed(fmt::format("job '{}' failed on rank 0: {}", name, *why));
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
    if (const auto status = write("", false); !status && status.failure().code != KINORA_ERROR_CANCELLED)
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

constexpr const char* kTakenBack = "{}: already done before; those results are back";

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

// The result of a job that was cancelled or failed, of which the log says why.
RunResult ended_by(const std::exception& e, const Launch& launch, const std::string& job,
                   const std::string& digest) {
  const fs::path folder = launch.run.out / job;
  const auto* error = dynamic_cast<const Error*>(&e);
  if (error && error->code() == KINORA_ERROR_CANCELLED) return {false, true};
  if (const Status may = may_publish(folder); !may && may.failure().code == KINORA_ERROR_CANCELLED)
    return {false, false};  // the lease has said why
  if (cancelled()) {        // a rank that stops because another failed logs what it waited for
    log_warn("job '{}' was stopped: {}", job, e.what());
    return {false, true};
  }
  const RunResult out = run_failed(fmt::format("job '{}' failed: {}", job, e.what()));
  if (launch.place.first()) {
    leave_failure(folder, digest, e.what());
    if (take_back_after_failure(folder) || is_done(folder))
      log_info("{}: the results from before are kept", job);
  }
  return out;
}

}  // namespace

void predict(const JobView& view, const JobIdentity& identity, bool again, bool from_scratch) {
  const RunFile& run = view.run();
  const JobSpec& job = view.spec();
  const fs::path folder = run.out / job.name;
  if (from_scratch) return log_info("{}: would run from scratch ({})", job.name, job.kind->help);
  if (!again && may_take_back(folder, identity.digest)) return log_info(kTakenBack, job.name);
  if (!again) log_info("{}: would run ({})", job.name, job.kind->help);
  const Beginning begins = beginning(folder, job.name, identity, is_quick(run, job));
  log_beginning(begins);
  if (begins.said.empty() && !again && begins.from == folder && has_begun(folder) && !is_done(folder))
    log_info("{}: it has begun, and {} does not say that it is done", job.name,
             (folder / "summary.json").string());
  job_type(run, job).predict(view, identity, begins.from,
                             earlier_results(folder, identity.base).retries + again);
}

// Only rank 0 of a launch writes.
RunResult run_job(const Launch& launch, const JobSpec& job, const JobIdentity& identity, bool from_scratch) {
  const auto start = Clock::now();
  const RunFile& run = launch.run;
  const bool is_first = launch.place.first();
  const std::string& digest = identity.digest;
  const fs::path folder = run.out / job.name;
  if (!is_first && !job.kind->is_spread()) return wait_for(launch, job.name, digest);
  try {
    or_throw(may_publish(folder));
    // Ranks that compute together cannot see that rank 0 has nothing left to do.
    const bool may_take_back = !from_scratch && is_first && (launch.place.alone() || !job.kind->is_spread());
    if (may_take_back && take_back(folder, digest)) {
      log_info(kTakenBack, job.name);
      return {true, false};
    }
    const JobType& type = job_type(run, job);
    const bool quick = is_quick(run, job);
    std::optional<AtomicFolder> beside;
    if (is_first && type.replaces_at_once()) beside = prepare_beside(folder, job.name, identity);
    if (is_first && !beside) prepare_folder(folder, job.name, identity, quick, from_scratch);
    const fs::path work = beside ? beside->temporary() : folder;
    std::optional<Spent> spent;
    if (is_first && !beside) spent.emplace(folder, start);
    std::optional<EndInMetrics> metrics;
    if (is_first) metrics.emplace(work, job.name);
    JobContext context(launch.runtime, run, job, is_first, identity, work);
    if (!job.kind->is_spread()) require(context);  // what earlier jobs made is there now
    type.run(context);
    if (cancelled()) return {false, true};
    // The next job reads results that rank 0 has not written yet.
    if (!is_first) return wait_for(launch, job.name, digest);
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    context.summary.update({{"job", job.name},
                            {"kind", job.kind->name},
                            {"status", "done"},
                            {"digest", digest},
                            {"seconds", spent ? spent->whole() : seconds},
                            {"finished", now_utc()}});
    context.summary["results"].update(results_in(work));
    write_summary(work, context.summary);
    metrics.reset();
    if (beside) or_throw(beside->commit(true));
    drop_before(folder);
    if (const std::string line = type.result_line(context.summary); !line.empty())
      log_info("{}: {}", job.name, line);
    log_info("{}: done in {:.1f} s", job.name, seconds);
    return {true, false};
  } catch (const std::exception& e) {
    return ended_by(e, launch, job.name, digest);
  }
}

}  // namespace kinora
