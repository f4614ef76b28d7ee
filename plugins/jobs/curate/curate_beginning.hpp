// Reports what a curate job finds of earlier runs, in the same words for a run and a dry run.
#pragma once
#include <filesystem>

#include "plugins/jobs/curation/record.hpp"
#include "core/run/job.hpp"

namespace kinora::core {

// The videos that the job's input leads to.
struct Listing {
  std::vector<Input> inputs;
  LeftOut left_out;
};
// Lists it on the first call for the job, and keeps the answer for the others. Throws as find_inputs().
const Listing& listed_inputs(Io& io, const JobSpec& job);

// The record's options for a job. retries: the number of requested retries of failures.
Record::Options record_options(const RunFile& run, const JobSpec& job, int64_t retries);

// Logs how many videos are unlisted, pruned or changed with their clips, how many failures are retried, and how many inputs have
// ended.
void say_beginning(const std::string& job, const Record& record);

// Logs the inputs that were skipped on purpose, so that none is skipped silently, and keys that had to change.
void say_left_out(const std::string& job, const Listing& listing);

// Logs how a run of the job would start in a folder with earlier results, and writes nothing. retries: the number of retries
// of failures that were requested by then.
void foresee_curate(Runtime& runtime, const RunFile& run, const JobSpec& job, const std::filesystem::path& folder,
                    int64_t retries);

}  // namespace kinora::core
