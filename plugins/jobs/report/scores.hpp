// The scores that the stages of a curate job measured, of all its items: distributions for histograms.
#pragma once
#include <map>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "plugins/jobs/curation/fact_bounds.hpp"

namespace kinora::core::report {

struct Score {
  std::vector<double> values;                // finite, one per item that has the score
  std::vector<double> filtered;              // those of items that the rule of the score's name filtered
  std::set<std::pair<bool, double>> bounds;  // noted with filtered items: {is_most, value}; few
};

// Takes in the items of items.jsonl one by one; keeps 8 bytes of a score of an item, or 16.
class Scores {
 public:
  // facts: of an item that the job has not cut into others. reason, score: why it was filtered; "" and NaN if
  // it was not.
  void add(const nlohmann::json& facts, const std::string& reason, double score);

  // The score that find_fact() finds for a condition's name; "" if it finds another fact, or none.
  std::string score_named(const std::string& fact) const;
  const std::map<std::string, Score>& all() const { return scores_; }

 private:
  Score* score(const std::string& name);  // null: there are too many

  std::map<std::string, Score> scores_;
  std::set<std::string> others_;  // facts other than scores
};

// A bound that used a score. select: name of the select job; "": a stage of the curate job.
struct UsedBound {
  FactBound bound;
  std::string select;
  int64_t removed = 0;  // number of clips; of a stage's bound it is counted here
};

// {"values", "low", "median", "high", "from", "to", "bars": [items], "edges", "out": [those that the score's rule
// filtered], "bounds": [{"is_most", "is_strict", "value", "by", "is_select", "removed"}]}; bars: of equal
// ranges between from and to, or, if there are edges, of those between them. bounds: all that used the score; those
// noted by filtered items count if `bounds` has none of that side of a stage.
nlohmann::json distribution_of(const std::string& name, const Score&, std::vector<UsedBound> bounds);

}  // namespace kinora::core::report
