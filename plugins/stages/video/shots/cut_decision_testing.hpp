// The rule of CutDecision on cuts that are all known.
#pragma once
#include <limits>

#include "shots/cut_decision.hpp"

namespace kinora::video::testing {

struct NamedCuts {
  std::string name;
  std::vector<int64_t> cuts;  // ascending
};

inline std::vector<int64_t> decided_cuts(const std::vector<NamedCuts>& found, const std::string& decide,
                                         int64_t tolerance) {
  std::vector<std::string> names;
  std::vector<const std::vector<int64_t>*> cuts;
  for (const auto& one : found) {
    names.push_back(one.name);
    cuts.push_back(&one.cuts);
  }
  CutDecision decision(names, decide, tolerance);
  decision.advance(cuts, std::vector<int64_t>(found.size(), std::numeric_limits<int64_t>::max()));
  return decision.cuts();
}

}  // namespace kinora::video::testing
