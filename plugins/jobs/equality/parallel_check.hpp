// The comparison of a parallel strategy with one process.
#pragma once
#include <string>

#include <nlohmann/json.hpp>

namespace kinora::core {

class Runtime;

class ParallelCheck {
 public:
  static constexpr const char* kId = "service/parallel-check";
  virtual ~ParallelCheck() = default;
  // Tries the strategy, written as in a job's `parallel`, on the ranks of this launch. Every rank calls it
  // with the same file:// rendezvous; each returns {"ranks", "layout", "trials": [{"name", "worst": {kind:
  // difference}, "skipped": why, or "wrong": {"what", "off", "rule"}}]}. Differences above `bound` are wrong.
  // Throws kinora::Error.
  virtual nlohmann::json compare(Runtime&, const std::string& strategy, double bound) const = 0;
};

}  // namespace kinora::core
