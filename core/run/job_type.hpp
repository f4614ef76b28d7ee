// A kind of job as a component: a library of tier "host" below plugins/jobs, or a third party's built with exactly this
// Kinora. A run opens it when its file names the kind. job_plugin.hpp makes a class of this type a plugin.
#pragma once
#include <filesystem>
#include <set>
#include <string>

#include "core/plugin/registry.hpp"
#include "core/run/run_file.hpp"

namespace kinora::core {

class JobContext;
class JobCheck;
class Runtime;

// [any-thread] all functions; a JobType has no state. They throw kinora::Error.
class JobType {
 public:
  virtual ~JobType() = default;

  // Does the job's work. Results go to the job's folder, counts to its summary. It stops soon after cancelled() and must
  // resume from what a killed run has left.
  virtual void run(JobContext&) const = 0;
  // Reports problems of the job's options and inputs, before anything runs.
  virtual void check(JobCheck&) const {}

  // Completes a job's table that names the folder of a published pipeline (option `pipeline`): what the table omits comes from the
  // folder. before: kinds of the upstream jobs. A kind without that option has no such folder.
  virtual nlohmann::json from_pipeline(const std::string& kind, const std::string& job, nlohmann::json table,
                                       const std::filesystem::path& folder, const std::set<std::string>& before) const {
    (void)kind, (void)job, (void)folder, (void)before;
    return table;
  }

  // Whether the job lists its inputs itself, one by one. It can then identify what affects results (inputs_identity),
  // count failed inputs and retry them (--retry-failed).
  virtual bool lists_inputs() const { return false; }
  virtual std::string inputs_identity(const RunFile&, const JobSpec&) const { return {}; }
  // Whether finished work on remaining inputs stays valid when other inputs are added or removed.
  virtual bool keeps_work() const { return false; }
  // Identity of the manual edits to the job's inputs that the job respects; "" if there are none.
  virtual std::string edits_identity(const RunFile&, const JobSpec&) const { return {}; }

  // Logs how a run that continues `folder` would begin; writes nothing. retries: the number of retries of failures that
  // such a run would have.
  virtual void foresee(Runtime&, const RunFile&, const JobSpec&, const std::filesystem::path& folder,
                       int64_t retries) const {
    (void)folder, (void)retries;
  }
  // One line about a finished job from its summary: "12 samples in 2 shards"; "" if there is nothing to say.
  virtual std::string result_line(const nlohmann::json& summary) const {
    (void)summary;
    return {};
  }
};

// Runs a job; its exceptions pass through.
void run_job(JobContext&);

// Opens the library of a kind of job. Throws kinora::Error.
const JobType& job_type(Registry&, const ComponentSpec& kind);
// The same for a job of a run that was read from its file.
const JobType& job_type(const RunFile&, const JobSpec&);

}  // namespace kinora::core
