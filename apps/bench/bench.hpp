// The benchmarks of `kinora bench`. Each compares a measurement with its limit or with a peer, in alternating
// rounds of one run.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "apps/command/command_line.hpp"
#include "core/runtime/runtime.hpp"
#include "kinora/abi/stage.h"

namespace kinora {

struct BenchOptions {
  std::string video;
  int repeat = 5;
  int threads = 1;   // for shots: threads of our decoder; the peer takes all cores
  std::string peer;  // a command, see bench_networks in tensors.hpp, and bench_data.cpp
  int64_t tokens = 256;
  std::string device = "auto";
  bool quick = false;  // small sizes: checks only that everything can be measured
};

// The result says whether the median of the rounds is "within" its bound; it says nothing if the benchmark
// has no bound without a peer, or for these sizes.
struct Benchmark {
  const char* name;
  nlohmann::json (*run)(core::Runtime&, const BenchOptions&);
  bool only_named = false;  // takes minutes; `kinora bench` without a name skips it
};

// Runs the command in the shell and waits. Returns its standard output; empty if it failed.
std::string output_of(const std::string& command);

// The middle of the values; the upper one of two.
double median(std::vector<double> values);

nlohmann::json bench_plugin_call(core::Runtime&, const BenchOptions&);
nlohmann::json bench_startup(core::Runtime&, const BenchOptions&);
nlohmann::json bench_shots(core::Runtime&, const BenchOptions&);
nlohmann::json bench_curate(core::Runtime&, const BenchOptions&);
nlohmann::json bench_curate_pipeline(core::Runtime&, const BenchOptions&);
nlohmann::json bench_curate_memory(core::Runtime&, const BenchOptions&);
nlohmann::json bench_record(core::Runtime&, const BenchOptions&);
nlohmann::json bench_data(core::Runtime&, const BenchOptions&);
nlohmann::json bench_train(core::Runtime&, const BenchOptions&);
nlohmann::json bench_sample(core::Runtime&, const BenchOptions&);
nlohmann::json bench_vae(core::Runtime&, const BenchOptions&);
nlohmann::json bench_block(core::Runtime&, const BenchOptions&);
nlohmann::json bench_parallel(core::Runtime&, const BenchOptions&);
nlohmann::json bench_balance(core::Runtime&, const BenchOptions&);
nlohmann::json bench_workers(core::Runtime&, const BenchOptions&);

// The baseline of a plugin call: the same function behind a virtual call. bench_virtual.cpp is a file of its
// own so that the compiler cannot see through the call.
struct Virtual {
  virtual ~Virtual() = default;
  virtual int32_t start(const kinora_run*) = 0;
};
std::unique_ptr<Virtual> make_virtual();

}  // namespace kinora
