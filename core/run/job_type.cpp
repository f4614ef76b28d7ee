#include "core/run/job_type.hpp"

#include "core/run/job.hpp"

namespace kinora::core {

void run_job(JobContext& job) { job_type(job.runtime().registry(), *job.spec().kind).run(job); }

const JobType& job_type(Registry& registry, const ComponentSpec& kind) {
  const Component job = or_throw(registry.open(kind.id));
  return *job.table<kinora_job>().type();
}

const JobType& job_type(const RunFile& run, const JobSpec& job) {
  if (!run.registry) throw Error(KINORA_INVALID, "job '" + job.name + "' was not read from a run file");
  return job_type(*run.registry, *job.kind);
}

}  // namespace kinora::core
