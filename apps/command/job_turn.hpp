// One job of a run, in the run's folder.
#pragma once
#include <filesystem>

#include "apps/command/runner.hpp"
#include "core/run/identity.hpp"
#include "core/run/job.hpp"

namespace kinora {

// Runs the job. since: the run's start. A failure is logged and never thrown.
RunResult run_job(core::Runtime& runtime, const core::RunFile& run, const core::JobSpec& job,
                  const core::JobIdentity& identity, std::filesystem::file_time_type since,
                  bool from_scratch);
// Logs what a run would do about an unfinished job; runs nothing. again: its failures would be tried again.
void predict(const core::JobView& view, const core::JobIdentity& identity, bool again, bool from_scratch);

}  // namespace kinora
