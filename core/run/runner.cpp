#include "core/run/runner.hpp"

#include <chrono>
#include <ctime>
#include <thread>

#include "core/build_info.hpp"
#include "core/io/atomic_file.hpp"
#include "core/jobs/curate.hpp"
#include "core/jobs/report.hpp"
#include "core/log.hpp"
#include "core/paths.hpp"
#include "core/run/cancel.hpp"
#include "core/run/digest.hpp"
#include "core/run/torch_library.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

json read_json(const fs::path& file) {
  std::ifstream in(file);
  auto value = json::parse(in, nullptr, false);
  return value.is_object() ? value : json::object();
}

// A finished job of the same identity needs no work.
bool finished(const fs::path& folder, const std::string& digest) {
  const json summary = read_json(folder / "summary.json");
  return summary.is_object() && summary.value("digest", "") == digest &&
         summary.value("status", "") == "done";
}

json spec_json(const JobSpec& job) {
  json out{{"name", job.name},
           {"kind", job.kind->spec.name},
           {"options", job.options},
           {"paths", job.paths},
           {"components", json::array()}};
  for (const auto& c : job.components)
    out["components"].push_back(
        {{"slot", c.slot}, {"id", c.id}, {"version", c.version}, {"options", c.options.values()}});
  return out;
}

std::string now_utc() {
  const std::time_t now = std::time(nullptr);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", std::gmtime(&now));
  return text;
}

// Makes the job's folder ready: what a job of another identity left there is removed, what the same job left
// is kept.
void prepare(const fs::path& folder, const JobSpec& job, const std::string& digest) {
  if (read_json(folder / "job.json").value("digest", "") != digest) fs::remove_all(folder);
  fs::create_directories(folder);
  json spec = spec_json(job);
  spec["digest"] = digest;
  spec["kinora"] = KINORA_VERSION;
  or_throw(write_file_atomically(folder / "job.json", spec.dump(2) + "\n"));
}

// Rank of this process in a launch; only rank 0 writes.
bool is_first_rank() {
  const std::string rank = environment("RANK");
  return rank.empty() || rank == "0";
}

// Rank 0 does a job that is not spread over ranks; the others wait for it.
RunResult wait_for(const fs::path& folder, const std::string& digest) {
  while (!finished(folder, digest)) {
    if (cancelled()) return {false, true};
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  return {true, false};
}

// Runs one job; its failure is a line, never an exception.
RunResult run_one(Runtime& runtime, const RunFile& run, const JobSpec& job, const std::string& digest) {
  const auto start = Clock::now();
  const fs::path folder = run.out / job.name;
  if (!is_first_rank() && !job.kind->spread()) return wait_for(folder, digest);
  try {
    if (is_first_rank()) prepare(folder, job, digest);
    JobContext context(runtime, run, job, is_first_rank());
    job_function (*job.kind)(context);
    if (cancelled()) return {false, true};
    if (!is_first_rank()) return {true, false};
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    context.summary.update({{"job", job.name},
                            {"kind", job.kind->spec.name},
                            {"status", "done"},
                            {"digest", digest},
                            {"seconds", seconds},
                            {"finished", now_utc()}});
    or_throw(write_file_atomically(folder / "summary.json", context.summary.dump(2) + "\n"));
    log_info("{}: done in {:.1f} s", job.name, seconds);
    return {true, false};
  } catch (const std::exception& e) {
    const auto* error = dynamic_cast<const Error*>(&e);
    if (cancelled() || (error && error->code() == KINORA_CANCELLED)) return {false, true};
    log_error("job '{}' failed: {}", job.name, e.what());
    return {false, false};
  }
}

void mark_needed(const RunFile& run, size_t job, std::vector<bool>& needed) {
  needed[job] = true;
  for (size_t input : run.jobs[job].inputs) mark_needed(run, input, needed);
}

}  // namespace

std::string job_digest(const RunFile& run, const JobSpec& job) {
  json identity = spec_json(job);
  identity.erase("name");
  identity["seed"] = run.seed;
  for (const auto& path : job.paths) identity["inputs"].push_back(stat_digest(path));
  for (size_t input : job.inputs) identity["inputs"].push_back(job_digest(run, run.jobs[input]));
  // The report is about every other job, whether it names them or not.
  if (job.kind->reads.empty())
    for (const auto& other : run.jobs)
      if (&other != &job && !other.kind->reads.empty()) identity["inputs"].push_back(job_digest(run, other));
  return sha256(identity.dump());
}

JobFunction job_function(const JobKind& kind) {
  if (kind.spec.name == "curate") return run_curate;
  if (kind.spec.name == "shard") return run_shard;
  if (kind.spec.name == "report") return run_report;
  return torch_job(kind.spec.name);
}

RunResult run_jobs(Runtime& runtime, const RunFile& run, const RunOptions& options) {
  std::vector<bool> needed(run.jobs.size(), options.only.empty());
  for (size_t i = 0; i < run.jobs.size(); ++i)
    if (run.jobs[i].name == options.only) mark_needed(run, i, needed);
  for (size_t i = 0; i < run.jobs.size(); ++i) {
    const JobSpec& job = run.jobs[i];
    if (!needed[i]) continue;
    const std::string digest = job_digest(run, job);
    if (finished(run.out / job.name, digest)) {
      log_info("{}: already done", job.name);
      continue;
    }
    if (options.dry) {
      log_info("{}: would run ({})", job.name, job.kind->spec.help);
      continue;
    }
    log_info("{}: {}", job.name, job.kind->spec.help);
    const RunResult result = run_one(runtime, run, job, digest);
    if (!result.ok) return result;
  }
  return {true, false};
}

}  // namespace kinora::core
