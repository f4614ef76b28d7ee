// What kinds of jobs a run file may hold, and what each of them reads, takes as options and is made of.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "core/plugin/manifest.hpp"
#include "kinora/options.hpp"

namespace kinora::core {

class JobContext;

// A place for a component in a job: sampler = { use = "edm-heun", steps = 20 }.
struct Slot {
  std::string name;       // key in the TOML
  std::string kind;       // kind of component: "sampler"
  std::string use;        // default component; empty: none
  bool required = false;  // the TOML or the default must name one
  bool list = false;      // stages = [ ... ]
  std::string help;
  bool how_only = false;  // what comes of the job is the same with another one
  // The job's option that says where its weights are; a config.json there completes the component's options.
  std::string weights{};
};

struct JobKind {
  ComponentSpec spec;  // name, help, options
  std::vector<Slot> slots;
  std::vector<std::string> reads;  // kinds of jobs whose output it reads; "path": files
  bool needs_input = true;
  bool torch = false;  // runs in libkinora_torch

  // Whether all ranks of a launch work on it; the others are rank 0's alone.
  bool spread() const;
};

// All kinds, in the order of a usual run. Constant.
const std::vector<JobKind>& job_kinds();

// The one component of a manifest text; a program error if there is none.
ComponentSpec job_component(const std::string& toml);

// The options of a job are described as a component's are; the description is read back like a manifest.
template <class Options>
ComponentSpec described_job() {
  Describe<Options> d;
  Options::describe(d);
  return job_component(d.toml("stage"));  // any kind that manifests know; a job has none
}

}  // namespace kinora::core
