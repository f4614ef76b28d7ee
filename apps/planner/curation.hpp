// The plan of a curate job on a cluster: its hours, what limits it and what it costs. The stages' costs are those
// that a finished run of the job measured; the rest is simulated (plugins/engines/common/simulated).
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/run/run_file.hpp"
#include "plugins/engines/common/simulated/cluster.hpp"

namespace kinora::core::plan {

struct MeasuredJob {
  std::string name;
  engines::simulated::Job job;  // inputs: those of the run
  int64_t measured = 0;         // inputs whose costs are known
  double error = 0;  // standard error of the work of one input, relative, if its samples are independent
};

// Reads live.json and summary.json in the job's folder.
Result<MeasuredJob> measured_job(const RunFile&, const JobSpec&);

// "1000x{cpus=64,gpus=8,memory=512GiB}", several kinds joined by '+'. Stages get three quarters of the memory, as
// engine/local gives them.
Result<std::vector<engines::simulated::Kind>> parse_nodes(std::string_view text);

struct CurationPlan {
  MeasuredJob of;
  std::string cluster;
  int64_t nodes = 0;
  double price = 0;  // of a node-hour
  engines::simulated::Surroundings around;
  engines::simulated::Bound bound;
  engines::simulated::TogetherRun together;
  engines::simulated::ClusterRun run;
  bool alone = true;  // every node can run all stages by itself; otherwise `run` is that of one scheduler

  double hours() const { return run.seconds / 3600; }
  double together_hours() const { return static_cast<double>(of.job.inputs) / together.per_second / 3600; }
  double bound_hours() const { return static_cast<double>(of.job.inputs) / bound.per_second / 3600; }
  double node_hours() const { return hours() * static_cast<double>(nodes); }
};

// inputs: of the whole job. KINORA_ERROR_INVALID: a stage fits on no node, or nodes fail of which some cannot run
// all stages.
Result<CurationPlan> plan_curation(MeasuredJob of, int64_t inputs, const std::string& cluster,
                                   const engines::simulated::Surroundings&);

std::string text_of(const CurationPlan&);
nlohmann::json json_of(const CurationPlan&);

}  // namespace kinora::core::plan
