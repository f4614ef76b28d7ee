// The results of a curate job: the files and the outcome of each sample while it runs, and at its end
// items.jsonl, the manifests, the counts of summary.json and log lines.
#pragma once
#include <mutex>
#include <string>

#include "core/run/job.hpp"
#include "plugins/jobs/curation/items.hpp"
#include "plugins/jobs/curation/record.hpp"
#include "plugins/jobs/curation/usage.hpp"

namespace kinora::core {

// Folder for the files that stages keep while they work on a video (video.remux). A video's file there is
// removed when its input ends.
std::filesystem::path work_folder(const JobContext&);
// Removes it; what a process on a lost node still writes there goes the next time.
void clear_work(const JobContext&);
// Folder in it where an engine may store kept samples (kinora_pipeline.store).
std::filesystem::path store_folder(const JobContext&);

// Moves the files of a sample that an engine has stored in `folder` to `data`, or none. files: their sizes by their
// names below it, as kinora_outcome.files, which it returns parsed. Throws kinora::Error.
json take_stored(const std::filesystem::path& data, const std::filesystem::path& folder, const char* files);

// Stores kept samples below data/ and records every outcome.
class OutcomeWriter {
 public:
  // Borrows all of them.
  OutcomeWriter(JobContext& context, Record& record, const InputRows& inputs);

  // [any-thread, one call at a time] Takes one outcome of the engine. A kept sample that cannot be stored
  // under its key is recorded as failed, with a warning, and the run continues. Throws kinora::Error if a
  // file or the record cannot be written.
  void end(const Sample& sample, const kinora_outcome& outcome);

  // [any-thread] The sample's key, with its video's folder if several videos have the same name: "scene-2
  // (b/scene.mp4)".
  std::string called(const Sample& sample) const;

  // [any-thread] Usage of the samples that ended in this run.
  json usage() const;

 private:
  void record(const Sample& sample, const kinora_outcome& outcome);
  void end_second(const Sample& sample, const kinora_outcome& outcome);
  void end_failed(const Sample& sample, const kinora_outcome& outcome, int32_t status,
                  const std::string& reason);
  std::string last() const;  // names of the stages whose samples leave the pipeline
  json line_of(const Sample& sample, const kinora_outcome& outcome, const Lineage& lineage) const;

  JobContext& context_;
  Record& record_;
  mutable std::mutex mutex_;
  Usage usage_;
  const InputRows& inputs_;
};

// Writes items.jsonl and the manifests in an order that does not depend on the order of the work; returns
// their sums. Adds kept_sha256, a digest of everything kept, to summary.json: what other jobs read of this
// one.
Totals write_results(JobContext&, const InputRows&, Record&);

// Adds counts, memory and times to summary.json. seconds: time of the pipeline; memory: peak bytes of this
// process during it.
void summarise(JobContext&, const Totals&, const InputRows&, const Record&, double seconds, int64_t memory);

// Adds figures of the engine's last report of this run to summary.json: the memory of samples and its bound,
// and, by stage, the errors over samples that were already emitted or dropped.
void summarise_engine(JobContext& context, const json& figures);

// Logs the counts. Throws Error(KINORA_ERROR_DATA) if something failed and nothing was kept, in this run or
// earlier ones; summary.json then has the status "failed", and the next run retries the failures.
void log_outcome(JobContext&, const Totals&);

}  // namespace kinora::core
