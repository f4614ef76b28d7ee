// Entry point of the library for `kinora bench` and `kinora plan`.
#include "apps/bench/bench_block.hpp"
#include "apps/bench/bench_networks.hpp"
#include "apps/bench/bench_parallel.hpp"
#include "core/runtime/runtime.hpp"
#include "core/torch/tensors/torch_guard.hpp"
#include "kinora/abi/plugin.h"

extern "C" KINORA_EXPORT void kinora_bench_open(const kinora_host*) {
  using namespace kinora::core;
  register_tool("bench", plain<bench_networks, Runtime, const json>);
  register_tool("bench_block", plain<bench_block, Runtime, const json>);
  register_tool("bench_parallel", plain<bench_parallel, Runtime, const json>);
}
