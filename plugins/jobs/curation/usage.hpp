// What stages have asked of servers, by stage: requests, tokens and, where prices are given, their cost.
#pragma once
#include <map>
#include <string>

#include <nlohmann/json.hpp>

namespace kinora::core {

class Usage {
 public:
  // facts of one end: its member "usage", {stage: {"requests", "prompt_tokens", "completion_tokens", "cost"}}.
  void add(const nlohmann::json& facts);
  // The sums in the same form, whatever the order: tokens and requests are whole numbers, costs have 12 decimals.
  nlohmann::json sums() const;

 private:
  std::map<std::string, std::map<std::string, double>> by_stage_;
};

}  // namespace kinora::core
