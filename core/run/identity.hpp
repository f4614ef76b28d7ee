// Identities of jobs, which tell the results of one from those of another. Equal identities give equal
// results, so a finished job need not run again.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "core/io/contents.hpp"
#include "core/run/run_file.hpp"

namespace kinora::core {

// The inputs of a job that lists them itself (JobType::list_inputs). The type casts it back to its own class.
class JobInputs {
 public:
  virtual ~JobInputs() = default;
  // Digest of what affects results.
  virtual std::string identity() const = 0;
};

struct JobIdentity {
  // SHA-256 over the kind, seed (of a job that draws), components, inputs (files by their contents, jobs by
  // identity) and the options that affect results, of which paths count as what the files and folders there
  // contain, wherever they are. A component counts by its id and the `results` that its manifest states, not
  // by its plugin's version. How a job runs (threads, log interval) is not included. An upstream curate job
  // counts by the samples that it keeps, not by how often its failures were retried.
  std::string digest;
  // The same without the inputs, for kinds of jobs that keep their work (JobType::keeps_work), or without the
  // options by which it may grow (JobType::grows_by); empty for other kinds.
  std::string base{};
  nlohmann::json description{};               // the content of job.json
  std::shared_ptr<const JobInputs> inputs{};  // of a kind that lists them; else null
};

// The identities of a run's jobs. Reads each file once, and lists the inputs of each job once. [owner-thread]
class JobIdentities {
 public:
  // Borrows the run.
  explicit JobIdentities(const RunFile&);

  // The job's identity as its folder has it now (see adopt_results()). Results of earlier jobs and retried
  // failures change it: make it when the job's turn comes.
  JobIdentity of(const JobSpec&);
  // Its digest without a look at the results in its folder.
  std::string digest_of_today(const JobSpec&);
  // Whether the job's results are in its folder; otherwise `why` may receive the reason.
  bool is_finished(const JobSpec&, std::string* why = nullptr);

  // Earlier versions of Kinora did not know options that have come since. A result whose digest is what such a
  // version would compute for the job of today, with the defaults of new options, is that job's. Writes today's
  // digests and descriptions into the folders of all such jobs of the run; job.json's "formerly" then lists
  // the base that it had, for what a job has recorded under it.
  void adopt_results();

  // Call it when results in a folder of the run have changed: identities depend on what the jobs before have kept. In
  // between each digest is computed once.
  void forget() { digests_.clear(), bases_.clear(); }

  const RunFile& run() const { return run_; }
  Contents& contents() { return contents_; }
  // Null for a kind that lists none. Throws kinora::Error if they cannot be listed.
  std::shared_ptr<const JobInputs> inputs_of(const JobSpec&);
  // The digest (is_read: as it counts for a job that reads it) and the base of today, computed once by `make`.
  const std::string& digest(const JobSpec& job, bool is_read, const std::function<std::string()>& make);
  const std::string& base(const JobSpec& job, const std::function<std::string()>& make);

 private:
  const RunFile& run_;
  Contents contents_;  // of the files that the jobs read
  std::map<const JobSpec*, std::shared_ptr<const JobInputs>> inputs_;
  // Digests as this version computes them, kept until forget(). The bool is is_read: the job as its readers see it.
  std::map<std::pair<const JobSpec*, bool>, std::string> digests_;
  std::map<const JobSpec*, std::string> bases_;
};

// A component as it counts for what comes of it: its id, results, and options with contents for paths.
nlohmann::json identity_of(const RunFile&, const ComponentUse&, Contents&);

}  // namespace kinora::core
