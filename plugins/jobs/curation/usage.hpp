// What stages have requested from servers, by stage: requests, tokens and, where prices are given, their
// cost.
#pragma once
#include <map>
#include <string>

#include <nlohmann/json.hpp>

namespace kinora::core {

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

}  // namespace kinora::core
