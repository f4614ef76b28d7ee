// Bounds of facts: those by which the stages of a curate job filter, from their options, and those of
// conditions such as "blur >= 20" in the `where` of select jobs.
#pragma once
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace kinora::core {

struct FactBound {
  std::string stage,
      option;  // "filter.flow", "p10_at_least"; of a condition "" and the fact as it is written there
  std::string rule,
      column;  // "filter.flow.p10", "scores.filter.flow.p10"; of a condition the fact's name, maybe a short one
  bool is_most = false;  // a larger value is filtered; else a smaller one
  double value = 0;
  bool is_strict = false;  // the value itself is filtered, too

  bool keeps(double other) const {
    return is_strict ? (is_most ? other < value : other > value) : is_most ? other <= value : other >= value;
  }
};

// The bounds by which a stage such as "filter.flow" filters; none if it only records a score. In the order of
// the options.
std::vector<FactBound> bounds_of_stage(const std::string& stage, const nlohmann::json& options);

// Returns the conditions FACT OP NUMBER that a top-level `and` joins; nothing for a text that cannot be
// parsed. rule: as in Where::rules().
std::vector<FactBound> bounds_of_where(const std::string& where);

}  // namespace kinora::core
