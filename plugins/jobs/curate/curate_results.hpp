// What a curate job leaves beside its clips: items.jsonl, the manifests, the counts of summary.json and the log's words.
#pragma once
#include "plugins/jobs/curation/record.hpp"
#include "plugins/jobs/curation/totals.hpp"
#include "core/run/job.hpp"

namespace kinora::core {

// items.jsonl and the manifests, in one order whatever the order of the work; their sums. summary.json gets
// kept_sha256, what the job has kept as one number: what other jobs read of it.
Totals write_results(JobContext&, const std::vector<Input>&, Record&);

// Counts, memory and times for summary.json; seconds: of the pipeline; memory: the most bytes that this process held meanwhile.
void summarise(JobContext&, const Totals&, const std::vector<Input>&, const Record&, double seconds, int64_t memory);

// What the engine's last report says of this run: the memory of samples against its bound, and errors of stages over samples
// that had been handed on or dropped, by stage.
void say_of_engine(JobContext& context, const json& figures);

// What was passed over, for summary.json.
void count_left_out(JobContext&, const LeftOut&);

// Throws Error(KINORA_DATA) if something failed and nothing is kept, of this run or of earlier ones: the counts are left with
// status "failed", and the next run tries what failed again.
void say_how_it_went(JobContext&, const Totals&);

}  // namespace kinora::core
