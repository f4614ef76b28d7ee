// What a curate job finds of earlier runs, in the same words for a run and for a dry run.
#pragma once
#include <filesystem>

#include "plugins/jobs/curation/record.hpp"
#include "core/run/job.hpp"

namespace kinora::core {

// In the log: what goes with films that are gone or have changed, what is tried again, how much has ended.
void say_beginning(const std::string& job, const Record& record, size_t inputs);

// Films that were passed over on purpose: nothing is in silence.
void say_left_out(const std::string& job, const LeftOut& out);

// Whether every stage takes what one other gives, and no two take the same: then a clip has one end.
bool is_chain(const std::vector<const ComponentUse*>& stages);

// Says how a run of the job would begin in a folder that has what it goes on with, and writes nothing. retries: how often its
// failures are to have been tried again then.
void foresee_curate(Runtime& runtime, const RunFile& run, const JobSpec& job, const std::filesystem::path& folder,
                    int64_t retries);

}  // namespace kinora::core
