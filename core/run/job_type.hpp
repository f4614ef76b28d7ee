// A kind of job as a component: a library of tier "host" below plugins/jobs (or a third party's, built with this one
// Kinora) that a run opens when its file names the kind. job_plugin.hpp makes a class of this type a plugin.
#pragma once
#include <filesystem>
#include <string>

#include "core/plugin/registry.hpp"
#include "core/run/run_file.hpp"

namespace kinora::core {

class JobContext;
class JobCheck;
class Runtime;

// [any-thread] every function; a JobType has no state. They throw kinora::Error.
class JobType {
 public:
  virtual ~JobType() = default;

  // The whole work. Results go to the job's folder, counts to its summary. It stops soon after cancelled() and must
  // continue what a killed run has left.
  virtual void run(JobContext&) const = 0;
  // Reports what is wrong with the job's options and inputs, before anything runs.
  virtual void check(JobCheck&) const {}

  // Whether the job lists its inputs itself, input by input: it can then say what decides results (inputs_identity),
  // counts inputs that failed and can try them again (--retry-failed).
  virtual bool lists_inputs() const { return false; }
  virtual std::string inputs_identity(const RunFile&, const JobSpec&) const { return {}; }
  // Whether finished work on inputs that stay is still good when others come or go.
  virtual bool keeps_work() const { return false; }
  // What people changed in the job's inputs by hand, as far as it follows that; "" if there is nothing.
  virtual std::string edits_identity(const RunFile&, const JobSpec&) const { return {}; }

  // Logs how a run would begin that continues what `folder` holds, and writes nothing. retries: how often failures are to
  // have been tried again then.
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

// Does the whole of a job. Throws what it throws.
void run_job(JobContext&);

// Opens the library of a kind of job. Throws kinora::Error.
const JobType& job_type(Registry&, const ComponentSpec& kind);
// The same of a job of a run that was read from its file.
const JobType& job_type(const RunFile&, const JobSpec&);

}  // namespace kinora::core
