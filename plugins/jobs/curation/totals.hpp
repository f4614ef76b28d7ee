// The sums of a curate job, from the lines of items.jsonl.
#pragma once
#include <map>
#include <string>

#include <nlohmann/json.hpp>

#include "plugins/jobs/curation/usage.hpp"
#include "plugins/jobs/curation/pipeline.hpp"

namespace kinora::core {

class Totals {
 public:
  // files: of a kept sample, with their sizes.
  void add(const nlohmann::json& line, bool made, const nlohmann::json& files);

  const Counts& inputs() const { return inputs_; }
  const Counts& clips() const { return clips_; }
  const std::map<std::string, int64_t>& rules() const { return rules_; }
  int64_t damaged() const { return damaged_; }
  // Why the first input, or the first made, that failed did; empty if none has.
  std::string first_failure(bool made) const;

  // For summary.json: inputs, kept, filtered, failed, damaged; clips; rules; outcomes by stage; what was
  // kept; usage: what stages have asked of servers, for failed samples too, by stage.
  nlohmann::json summary() const;

 private:
  // (kind, end, stage, rule) -> how many. Failures of a stage count together: their reasons differ from film
  // to film.
  std::map<std::tuple<std::string, std::string, std::string, std::string>, int64_t> outcomes_;
  std::map<std::string, int64_t> rules_;
  Usage usage_;
  std::map<bool, std::string> first_failure_;  // by whether it was made
  Counts inputs_, clips_;
  int64_t damaged_ = 0, files_ = 0;
  uint64_t bytes_kept_ = 0;
  double film_seconds_ = 0, clip_seconds_ = 0;
};

// Length of what the line is about, as far as its facts say: 0 if they do not.
double seconds_of(const nlohmann::json& line);

}  // namespace kinora::core
