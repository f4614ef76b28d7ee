// Measures the work of each rank: tokens, tokens with a loss, frames encoded, bytes sent and received, bytes of samples
// read, seconds of computing and of waiting. Each is one number per rank, logged as the metric `ranks` and as a
// table at the end, and used to name slow ranks.
//
// Computing time is a step's time minus the time spent waiting in transfers: ranks that wait for a slow one
// have steps as long as its own, but compute no longer than before. (GPU transfers are waited for on the
// device, not here.)
#pragma once
#include <chrono>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/torch/ranks/parallelism.hpp"

namespace kinora::core {

// Work of one rank in some steps.
struct RankWork {
  double steps = 0, tokens = 0, loss_tokens = 0, encoded = 0, sent = 0, received = 0, computing = 0,
         waiting = 0, data_bytes = 0;
};

// Ranks that compute at least twice as long as the median of the others, each with a message: "rank 3 is 9.8x
// slower than the median of the others: 1.2 s of computing per step against 0.12 s".
std::vector<std::pair<size_t, std::string>> slow_ranks(const std::vector<RankWork>& ranks);

// {"tokens": [one per rank], ...}
nlohmann::json to_json(const std::vector<RankWork>& ranks);
// Lines of a table with equal columns, header first.
std::vector<std::string> table_of(const std::vector<RankWork>& ranks);

class Balance {
 public:
  explicit Balance(const Parallelism& parallel) : parallel_(parallel) {}

  // Called before and after a step's computation.
  void begin_step();
  void end_step(double tokens, double loss_tokens, double encoded, double data_bytes);

  // [owner-thread] Collective over all ranks; does nothing in a single process. log: adds "ranks" since its
  // last call to the line, and warns of slow ranks. finish: the table of the whole run, for the log and
  // summary().
  void log(const std::string& job, nlohmann::json& line);
  void finish(const std::string& job);
  // Bytes of samples that all ranks read, as in the last line.
  int64_t data_bytes() const { return static_cast<int64_t>(data_bytes_); }
  // {"ranks": ..., "transfers": [{rank, group, operation, transfers, sent, received, waited}]}; empty in a
  // single process.
  const nlohmann::json& summary() const { return summary_; }

 private:
  std::vector<RankWork> gather(const RankWork& mine) const;
  const Parallelism& parallel_;
  RankWork all_, since_;            // without bytes, which the mesh counts
  double sent_ = 0, received_ = 0;  // at the last call of log()
  double data_bytes_ = 0;           // of its line
  std::chrono::steady_clock::time_point begin_;
  double waited_ = 0;  // at begin_step()
  std::set<size_t> slow_;
  nlohmann::json summary_ = nlohmann::json::object();
};

}  // namespace kinora::core
