// The inputs of a curate job that several processes share: each does ranges of them, by leases (range_leases.hpp), as
// jobs of their own; the process that runs the job afterwards takes these parts over.
//
//   OUT/.leases/JOB/IDENTITY/leases/plan.json            {"v":1,"inputs":N,"per_lease":M}; without it all is over
//   OUT/.leases/JOB/IDENTITY/leases/FIRST.json           a lease
//   OUT/.leases/JOB/IDENTITY/parts/FIRST.EPOCH/          record.db and data/ of a range, as of a curate job
//   OUT/.leases/JOB/IDENTITY/answers/                    what stages have paid for, of all parts (curate_work.hpp)
//
// With the option lease_at, leases/ and parts/ are in that folder of another storage, as AT/JOB/IDENTITY/, and what
// is below OUT is one machine's: the part at work, and in the end the copies of all in one machine. The process
// that fetches them has the lease AT/JOB/IDENTITY/taker/0.json.
//
// Invariant: a part is read only after its lease says that it is done, and is complete then.
#pragma once
#include <vector>

#include "core/run/job.hpp"
#include "plugins/jobs/curate/curate_options.hpp"
#include "plugins/jobs/curation/input_rows.hpp"
#include "plugins/jobs/curation/record.hpp"

namespace kinora::core {

// Returns when all inputs are done, by whichever processes, or the job has ended; false: another process, with another
// output folder, puts the parts together. inputs: with their keys, the same in
// all processes. begun: inputs with results in the job's own record, which no part repeats. Throws kinora::Error; what
// this process has not finished is then free for others.
bool share_inputs(JobContext&, const CurateOptions&, const InputRows& inputs, const std::vector<bool>& begun);

// Makes the answers that stages have paid for in the parts the job's own, unless it has some.
void adopt_answers(const JobContext&);

// Takes the done parts over into the job's record, if there are any. This job does again what does not fit.
void adopt_parts(const JobContext&, const InputRows& inputs, Record&);

}  // namespace kinora::core
