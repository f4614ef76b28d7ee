// The resources that a job has used: requests to servers, and memory.
#pragma once
#include <atomic>
#include <cstdint>
#include <map>
#include <string>

#include <nlohmann/json.hpp>

namespace kinora::core {

// Requests of stages to servers, by stage: number, tokens and, where prices are given, their
// cost.
class Usage {
 public:
  // facts of one outcome: its member "usage", {stage: {"requests", "prompt_tokens", "completion_tokens",
  // "cost"}}.
  void add(const nlohmann::json& facts);
  // The sums in the same form, independent of the order: tokens and requests are integers, costs have 12
  // decimals.
  nlohmann::json sums() const;

 private:
  std::map<std::string, std::map<std::string, double>> by_stage_;
};

// Measures the peak memory of this process from its construction on: of one job, although a run has several.
class PeakMemory {
 public:
  PeakMemory();
  // [any-thread] Samples the current memory.
  void look();
  // Bytes. Exact if the process never held as much before; else the maximum that look() has seen.
  int64_t most();

 private:
  const int64_t before_;
  std::atomic<int64_t> seen_{0};
};

}  // namespace kinora::core
