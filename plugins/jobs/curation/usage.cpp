#include "plugins/jobs/curation/usage.hpp"

#include <cmath>

#include "core/base/facts.hpp"

namespace kinora::core {
namespace {

// Floating-point sums depend on the order of their terms in the last bits.
double rounded(double cost) { return std::round(cost * 1e12) / 1e12; }

}  // namespace

void Usage::add(const nlohmann::json& facts) {
  for (const auto& [stage, used] : object_in(facts, "usage").items())
    for (const char* what : {"requests", "prompt_tokens", "completion_tokens", "cost"})
      if (used.is_object() && used.contains(what)) by_stage_[stage][what] += number_in(used, what);
}

nlohmann::json Usage::sums() const {
  nlohmann::json out = nlohmann::json::object();
  for (const auto& [stage, used] : by_stage_)
    for (const auto& [what, sum] : used)
      out[stage][what] = what == "cost" ? nlohmann::json(rounded(sum)) : nlohmann::json(static_cast<int64_t>(sum));
  return out;
}

}  // namespace kinora::core
