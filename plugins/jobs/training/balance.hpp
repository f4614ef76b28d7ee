// What each rank handles: tokens, tokens with a loss, frames encoded, bytes sent and received, seconds of
// computing and of waiting. One number a rank, logged as the metric `ranks`, as a table at the end, and the
// reason why a slow rank is named.
//
// Computing is a step's time less that spent waiting in transfers: ranks that wait for a slow one have steps
// as long as its own, and compute as little as ever. (Transfers of GPUs are waited for by the device, not
// here.)
#pragma once
#include <chrono>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/torch/context/parallelism.hpp"

namespace kinora::core {

// Of one rank and some steps.
struct RankWork {
  double steps = 0, tokens = 0, loss_tokens = 0, encoded = 0, sent = 0, received = 0, computing = 0,
         waiting = 0;
};

// Ranks whose computing takes at least twice the median of the others', each with a line that names it:
// "rank 3 is 9.8x slower than the median of the others: 1.2 s of computing a step against 0.12 s".
std::vector<std::pair<size_t, std::string>> slow_ranks(const std::vector<RankWork>& ranks);

// {"tokens": [one a rank], ...}
nlohmann::json to_json(const std::vector<RankWork>& ranks);
// Lines of equal columns, the head first.
std::vector<std::string> table_of(const std::vector<RankWork>& ranks);

class Balance {
 public:
  explicit Balance(const Parallelism& parallel) : parallel_(parallel) {}

  // Around what a step computes.
  void begin_step();
  void end_step(double tokens, double loss_tokens, double encoded);

  // [owner-thread] Meetings of all ranks; without others nothing happens. log: adds "ranks" since it was last
  // called to the line, and warns of slow ones. finish: the table of the whole run, for the log and
  // summary().
  void log(const std::string& job, nlohmann::json& line);
  void finish(const std::string& job);
  // {"ranks": ..., "transfers": [{rank, group, operation, transfers, sent, received, waited}]}; empty of one.
  const nlohmann::json& summary() const { return summary_; }

 private:
  std::vector<RankWork> gather(const RankWork& mine) const;
  const Parallelism& parallel_;
  RankWork all_, since_;            // but for bytes, which the mesh counts
  double sent_ = 0, received_ = 0;  // when log was last called
  std::chrono::steady_clock::time_point begin_;
  double waited_ = 0;  // at begin_step
  std::set<size_t> slow_;
  nlohmann::json summary_ = nlohmann::json::object();
};

}  // namespace kinora::core
