// The machine that a layout is planned for: nodes of GPUs joined by a fast link inside a node and a network
// between nodes. A cluster is written NODESxGPUSxNAME: "8x8xH100".
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/status.hpp"

namespace kinora::core::plan {

struct Gpu {
  std::string name;
  double peak = 0;              // dense BF16 operations per second
  double memory = 0;            // bytes
  double memory_bandwidth = 0;  // bytes per second
  double link = 0;              // bytes per second, each way, to all other GPUs of the node
  double network = 0;           // bytes per second, each way, of the GPU's own network card
  double units = 0;             // multiprocessors that share a product's tiles; 0: waves are not modelled
};

struct Cluster {
  Gpu gpu;
  int64_t nodes = 1, per_node = 1;
  double link_latency = 5e-6, network_latency = 12e-6;  // seconds per message, launch included

  int64_t size() const { return nodes * per_node; }
  std::string text() const;
};

// Fractions of the published peaks that are reached. The first two are fitted to measured runs
// (paper_testing.hpp); the others are common measured values and fixed.
struct Efficiency {
  double matrix = 0.49;          // of Gpu::peak, for a large matrix product
  double link = 0.86;            // of any link, NVLink or network, during a transfer
  double attention = 0.5;        // of Gpu::peak, for fused attention: Hopper's reaches 0.4 to 0.7
  double memory = 0.8;           // of memory_bandwidth, for a kernel that only reads and writes
  double usable = 0.94;          // of the memory; the rest is fragmentation
  double launch = 4e-6;          // seconds until a kernel's work begins
  double runtime_bytes = 1.5e9;  // taken by the device's context and the collectives' buffers
};

// GPU names that parse_cluster knows.
std::vector<std::string> gpu_names();
// KINORA_ERROR_INVALID states the error in the text. `here`: the calibrated machine, called "here", or null.
Result<Cluster> parse_cluster(std::string_view text, const Gpu* here = nullptr);

}  // namespace kinora::core::plan
