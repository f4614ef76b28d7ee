#include "plugins/jobs/curation/totals.hpp"

#include "core/base/facts.hpp"

namespace kinora::core {

using nlohmann::json;

double seconds_of(const json& line) {
  const json& shots = object_in(line, "shots");
  if (const double end = number_in(shots, "end_us"); end > 0) return end / 1e6;  // also correct for a variable frame rate
  if (const double fps = number_in(shots, "fps"); fps > 0) return number_in(shots, "frames") / fps;
  return number_in(object_in(line, "facts"), "duration_s");
}

void Totals::add(const json& line, bool made, const json& files) {
  const std::string end = text_in(line, "end");
  const bool filtered = end == "filtered";
  usage_.add(object_in(line, "facts"));
  Counts& counts = made ? clips_ : inputs_;
  ++(end == "kept" ? counts.kept : filtered ? counts.filtered : counts.failed);
  const std::string rule = filtered ? text_in(line, "reason") : "";
  if (filtered) ++rules_[rule];
  if (end == "failed") first_failure_.try_emplace(made, text_in(line, "reason"));
  ++outcomes_[{made ? "clips" : "inputs", end, text_in(line, "stage"), rule}];
  if (!made) {
    damaged_ += line.contains("damaged");
    film_seconds_ += seconds_of(line);
  } else if (!files.empty()) {
    clip_seconds_ += seconds_of(line);
  }
  for (const auto& [name, size] : files.items()) {
    ++files_;
    bytes_kept_ += size.get<uint64_t>();
  }
}

std::string Totals::first_failure(bool made) const {
  const auto it = first_failure_.find(made);
  return it == first_failure_.end() ? "" : it->second;
}

json Totals::summary() const {
  json outcomes = {{"inputs", json::array()}, {"clips", json::array()}};
  for (const auto& [what, count] : outcomes_) {
    const auto& [kind, end, stage, rule] = what;
    json one{{"end", end}, {"count", count}};
    if (!stage.empty()) one["stage"] = stage;
    if (!rule.empty()) one["rule"] = rule;
    outcomes[kind].push_back(one);
  }
  json out = inputs_.json();
  out.update({{"inputs", inputs_.sum()},
              {"damaged", damaged_},
              {"clips", clips_.json()},
              {"rules", rules_},
              {"outcomes", outcomes},
              {"film_seconds", film_seconds_},
              {"clip_seconds", clip_seconds_},
              {"files_kept", files_},
              {"bytes_kept", bytes_kept_}});
  if (json used = usage_.sums(); !used.empty()) {
    out["usage"] = std::move(used);
    out["usage_of"] = "all runs of this job, cost in the currency of its prices";
  }
  return out;
}

}  // namespace kinora::core
