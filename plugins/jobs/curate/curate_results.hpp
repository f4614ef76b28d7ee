// Writes what a curate job leaves next to its clips: items.jsonl, the manifests, the counts of summary.json and log
// lines.
#pragma once
#include "plugins/jobs/curation/record.hpp"
#include "plugins/jobs/curation/totals.hpp"
#include "core/run/job.hpp"

namespace kinora::core {

// Writes items.jsonl and the manifests in an order that does not depend on the order of the work; returns
// their sums. Adds kept_sha256, a digest of everything kept, to summary.json: what other jobs read of this
// one.
Totals write_results(JobContext&, const std::vector<Input>&, Record&);

// Adds counts, memory and times to summary.json. seconds: time of the pipeline; memory: peak bytes of this process during it.
void summarise(JobContext&, const Totals&, const std::vector<Input>&, const Record&, double seconds, int64_t memory);

// Logs the engine's last report of this run: the memory of samples against its bound, and, by stage, errors over samples
// that were already emitted or dropped.
void say_of_engine(JobContext& context, const json& figures);

// Adds the counts of skipped inputs to summary.json.
void count_left_out(JobContext&, const LeftOut&);

// Throws Error(KINORA_DATA) if something failed and nothing was kept, in this run or earlier ones. The counts then have
// status "failed", and the next run retries the failures.
void say_how_it_went(JobContext&, const Totals&);

}  // namespace kinora::core
