// Measures this machine, so that plans for it are of it: "1x2xhere" is one node of two of its cores.
#pragma once
#include <filesystem>
#include <functional>

#include <nlohmann/json.hpp>

#include "apps/planner/cluster.hpp"

namespace kinora::core::plan {

// One core as if it were a GPU, and the shares of its peaks that are reached.
struct Machine {
  Gpu gpu;
  Efficiency efficiency;
  double latency = 0;  // of a message between two processes, seconds
};

// Bytes a second that one thread copies, read and written counted.
double copy_rate();
struct Loopback {
  double latency, rate;  // seconds of a short message; bytes a second of a long one
};
// Over TCP on 127.0.0.1, as the Gloo collective's are. Throws kinora::Error if there is none.
Loopback loopback();

// product: operations a second of a product of large matrices on one thread; share: of it, what a training
// step of a transformer reaches. Both need tensors, and are measured where there are some.
Machine measure(double product, double share);

// $XDG_CACHE_HOME/kinora/machine.json, or in ~/.cache.
std::filesystem::path machine_file();
nlohmann::json json_of(const Machine&);
// KINORA_INVALID: it was not measured, or the file is damaged.
Result<Machine> read_machine(const std::filesystem::path&);

}  // namespace kinora::core::plan
