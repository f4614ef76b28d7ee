// The lines of items.jsonl, one for each outcome of a curate job, and their sums.
#pragma once
#include <map>
#include <string>

#include <nlohmann/json.hpp>

#include "kinora/abi/engine.h"
#include "kinora/sample.hpp"
#include "plugins/jobs/pipeline/pipeline.hpp"
#include "plugins/jobs/curation/record.hpp"
#include "plugins/jobs/curation/usage.hpp"

namespace kinora::core {

// The line about an outcome of the engine, with the members of docs/formats/items.md. url: the input's; empty
// for a made sample.
json item_line(const Sample& sample, const kinora_outcome& outcome, const Lineage& lineage,
               const std::string& url);

// The line of an input that no stage has seen. rule: the rule that filtered it; empty: it failed with
// `reason`.
json unread_line(const Input& input, const std::string& rule, const std::string& reason,
                 int32_t status = KINORA_ERROR_DATA);

// The sums of a curate job, computed from the lines of items.jsonl.
class Totals {
 public:
  // files: of a kept sample, with their sizes.
  void add(const nlohmann::json& line, bool made, const nlohmann::json& files);

  const Counts& inputs() const { return inputs_; }
  const Counts& clips() const { return clips_; }
  const std::map<std::string, int64_t>& rules() const { return rules_; }
  int64_t damaged() const { return damaged_; }
  // The failure reason of the first input (made = false) or made sample that failed; empty if none has.
  std::string first_failure(bool made) const;
  // The first that failed, inputs first, why, how many others have, and what to do: "sea.mp4 failed (cut off), and 2
  // more; replace them, or run again with --retry-failed"; empty if none has.
  std::string failures_text() const;

  // For summary.json: inputs, kept, filtered, failed, damaged; clips; rules; outcomes by stage; kept files;
  // usage: requests of stages to servers by stage, including those for failed samples.
  nlohmann::json summary() const;

 private:
  // (kind, end, stage, rule) -> count. All failures of a stage count together, since their reasons differ
  // from video to video.
  std::map<std::tuple<std::string, std::string, std::string, std::string>, int64_t> outcomes_;
  std::map<std::string, int64_t> rules_;
  Usage usage_;
  struct Failure {
    std::string name, reason;  // name: of an input's file, or the key
  };
  std::map<bool, Failure> first_failure_;  // by whether it was made
  Counts inputs_, clips_;
  int64_t damaged_ = 0, files_ = 0;
  uint64_t bytes_kept_ = 0;
  double video_seconds_ = 0, clip_seconds_ = 0;
};

// Duration of the video or clip of this line, from its facts; 0 if unknown.
double seconds_of(const nlohmann::json& line);

}  // namespace kinora::core
