// Measures this machine so that plans can be made for it: "1x2xhere" is one node with two of its cores.
#pragma once
#include <filesystem>
#include <functional>

#include <nlohmann/json.hpp>

#include "apps/planner/cluster.hpp"

namespace kinora::core::plan {

// One core treated as a GPU, and the fractions of its peaks that are reached.
struct Machine {
  Gpu gpu;
  Efficiency efficiency;
  double latency = 0;  // seconds for a message between two processes
};

// Bytes per second that one thread copies, reads plus writes.
double copy_rate();
struct Loopback {
  double latency, rate;  // seconds for a short message; bytes per second for a long one
};
// Measured over TCP on 127.0.0.1, like the Gloo collective. Throws kinora::Error if a socket call fails.
Loopback loopback();

// product: operations per second of large matrix products on one thread; share: the fraction of it that a
// transformer's training step reaches. Both need tensors, so the caller measures them if libtorch is
// available.
Machine measure(double product, double share);

// $XDG_CACHE_HOME/kinora/machine.json, or ~/.cache/kinora/machine.json.
std::filesystem::path machine_file();
nlohmann::json json_of(const Machine&);
// KINORA_ERROR_INVALID: the machine was not measured, or the file is damaged.
Result<Machine> read_machine(const std::filesystem::path&);

}  // namespace kinora::core::plan
