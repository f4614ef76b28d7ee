// One job of a run, in the run's folder.
#pragma once
#include "apps/command/runner.hpp"
#include "core/run/identity.hpp"
#include "core/run/job.hpp"

namespace kinora {

// Runs the job. A failure is logged and never thrown.
RunResult run_job(const Launch&, const core::JobSpec&, const core::JobIdentity&, bool from_scratch);
// Logs what a run would do about an unfinished job; runs nothing. again: its failures would be tried again.
void predict(const core::JobView& view, const core::JobIdentity& identity, bool again, bool from_scratch);

}  // namespace kinora
