// A job of a run (JobView), one that runs (JobContext: its folder, metrics and progress), and its kind
// (JobType).
#pragma once
#include <deque>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/plugin/options.hpp"
#include "core/plugin/registry.hpp"
#include "core/run/identity.hpp"
#include "core/run/run_file.hpp"
#include "core/runtime/call.hpp"
#include "core/runtime/runtime.hpp"
#include "kinora/options.hpp"
#include "kinora/run.hpp"

namespace kinora::core {

// metrics.jsonl. Appends one line of JSON per step or item; numbers keep 17 digits.
class Metrics {
 public:
  explicit Metrics(const std::filesystem::path& file);
  void line(const nlohmann::json&);
  // Drops the lines of steps after `step`: a killed process wrote them, and they will be written again.
  void rewind(int64_t step);
  // Drops all lines, for a job that rewrites those of its finished items.
  void clear();

 private:
  std::filesystem::path file_;
  std::ofstream out_;
};

// A job as its file describes it. Creates no files.
class JobView {
 public:
  JobView(Runtime& runtime, const RunFile& run, const JobSpec& spec)
      : runtime_(runtime), run_(run), spec_(spec) {}

  Runtime& runtime() const { return runtime_; }
  const RunFile& run() const { return run_; }
  const JobSpec& spec() const { return spec_; }
  std::filesystem::path folder_of(const JobSpec& job) const { return run_.out / job.name; }
  // Where several processes share the job's work (JobType::share), until it is done.
  std::filesystem::path shared_folder() const { return run_.out / ".leases" / spec_.name; }
  // The nearest upstream job of this kind, direct or indirect; null if there is none.
  const JobSpec* upstream(const std::string& kind) const;
  // The same; throws Error if there is none.
  const JobSpec& need_upstream(const std::string& kind) const;

  template <class O>
  O options() const {
    Describe<O> d;
    O::describe(d);
    return d.read(or_throw(Options::make(*spec_.kind, spec_.options)).abi());
  }
  // Opens the component, without creating an instance. Throws kinora::Error.
  Component open(const ComponentUse&) const;
  Component open_slot(const std::string& slot) const { return open(*spec_.component(slot)); }

 private:
  Runtime& runtime_;
  const RunFile& run_;
  const JobSpec& spec_;
};

// A job while it runs. Its constructor creates the job's folder.
class JobContext : public JobView {
 public:
  // writes: this process writes the job's metrics (rank 0 of a launch).
  // folder: where it works instead of in the job's own folder; empty: there.
  JobContext(Runtime&, const RunFile&, const JobSpec&, bool writes = true, JobIdentity identity = {},
             std::filesystem::path folder = {});

  const JobIdentity& identity() const { return identity_; }

  // The job's own folder, or the one that takes its place when the job is done; it exists. Only results and
  // temporary files belong there.
  const std::filesystem::path& folder() const { return folder_; }

  Metrics& metrics() { return *metrics_; }
  // Counts and facts of the job, written to summary.json when it is done. Its member "results" lists the
  // files that the job writes outside its folder: {path relative to the folder: bytes}.
  nlohmann::json summary = {{"results", nlohmann::json::object()}};
  // A run struct for calls into components whose first sample has this global number. Valid while the context
  // lives.
  kinora_run call(Progress* progress = nullptr, int64_t first_sample = 0);

 private:
  const JobIdentity identity_;
  std::filesystem::path folder_;
  std::string out_uri_;
  std::unique_ptr<Metrics> metrics_;
  std::deque<Call> calls_;
};

class JobCheck;

// A kind of job as a component: a library of tier "host" below plugins/jobs, or a third party's built with
// exactly this Kinora. A run opens it when its file names the kind. job_plugin.hpp makes a class of this type
// a plugin. [any-thread] all functions; a JobType has no state. They throw kinora::Error.
class JobType {
 public:
  virtual ~JobType() = default;

  // Does the job's work. Results go to the job's folder, counts to its summary. It stops soon after
  // cancelled() and must resume from what a killed run has left.
  virtual void run(JobContext&) const = 0;
  // Several processes each do a part of the job in shared_folder(), the context's, for one of them to run the job;
  // false: that one has another output folder. Called where the job's option `lease` is not 0.
  virtual bool share(JobContext&) const { return true; }
  // Fails while other processes share the job's work in shared_folder(), for a run that does not. May wait for signs of
  // life.
  virtual Status is_not_shared(const JobView&) const { return {}; }
  // Reports problems of the job's options and inputs, before anything runs.
  virtual void check(JobCheck&) const {}

  // Completes a job's table that names the folder of a published pipeline (option `pipeline`): what the table
  // omits comes from the folder. before: kinds of the upstream jobs. A kind without that option has no such
  // folder. An array of tables, each with a name of its own: the table stands for several jobs.
  virtual nlohmann::json from_pipeline(const std::string& kind, const std::string& job, nlohmann::json table,
                                       const std::filesystem::path& folder,
                                       const std::set<std::string>& before) const {
    (void)kind, (void)job, (void)folder, (void)before;
    return table;
  }

  // Whether a table that names no pipeline takes over that of `input`, a direct input whose table names one.
  virtual bool takes_pipeline_of(const nlohmann::json& table, const JobSpec& input) const {
    (void)table, (void)input;
    return false;
  }
  // Replaces values of options that do not count as they are for the job's identity by what counts instead.
  virtual void count_options(Contents&, nlohmann::json& options) const { (void)options; }

  // Whether the job lists its inputs itself, one by one. It can then identify what affects results, count
  // failed inputs and retry them (--retry-failed).
  virtual bool lists_inputs() const { return false; }
  // Lists them; null for other kinds.
  virtual std::shared_ptr<const JobInputs> list_inputs(const RunFile&, const JobSpec&) const {
    return nullptr;
  }
  // Whether finished work on remaining inputs stays valid when other inputs are added or removed.
  virtual bool keeps_work() const { return false; }
  // Numbers among its options that may be raised: a run then continues from the earlier results instead of
  // starting from scratch, as a training does beyond its last step.
  virtual std::vector<std::string> grows_by() const { return {}; }
  // Identity of the manual edits to the job's inputs that the job respects; "" if there are none.
  virtual std::string edits_identity(const RunFile&, const JobSpec&) const { return {}; }

  // Digest of the data that other jobs read in this one's folder, without reading a sample: ranks whose digests differ
  // do not start. "": names, sizes and indices of shards count, if there are any.
  virtual std::string data_digest(const std::filesystem::path& /*folder*/) const { return {}; }

  // Logs how a run that continues `folder` would begin; writes nothing. retries: the number of retries of
  // failures that such a run would have.
  virtual void predict(const JobView&, const JobIdentity&, const std::filesystem::path& folder,
                       int64_t retries) const {
    (void)folder, (void)retries;
  }
  // One line about a finished job from its summary: "12 samples in 2 shards"; "" if there is nothing to say.
  virtual std::string result_line(const nlohmann::json& /*summary*/) const { return {}; }
  // Whether its finished results stay in its folder while it runs again, until the new ones replace them in
  // one step: for jobs of seconds, which resume nothing.
  virtual bool replaces_at_once() const { return false; }
};

// Opens the library of a kind of job. Throws kinora::Error.
const JobType& job_type(Registry&, const ComponentSpec& kind);
// The same for a job of a run that was read from its file.
const JobType& job_type(const RunFile&, const JobSpec&);

}  // namespace kinora::core
