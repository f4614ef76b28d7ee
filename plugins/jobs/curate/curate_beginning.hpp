// Reports what a curate job finds of earlier runs, in the same words for a run and a dry run.
#pragma once
#include <filesystem>

#include "plugins/jobs/curation/record.hpp"
#include "core/run/job.hpp"

namespace kinora::core {

// Logs how many videos have gone or changed with their clips, how many failures are retried, and how many
// inputs have ended.
void say_beginning(const std::string& job, const Record& record, size_t inputs);

// Logs the inputs that were skipped on purpose, so that none is skipped silently.
void say_left_out(const std::string& job, const LeftOut& out);

// Whether every stage reads one other stage's output and no two read the same: then a clip has one outcome.
bool is_chain(const std::vector<const ComponentUse*>& stages);

// Logs how a run of the job would start in a folder with earlier results, and writes nothing. retries: the number of retries
// of failures that were requested by then.
void foresee_curate(Runtime& runtime, const RunFile& run, const JobSpec& job, const std::filesystem::path& folder,
                    int64_t retries);

}  // namespace kinora::core
