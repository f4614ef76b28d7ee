// What a terminal shows of a running pipeline, below its progress bar.
#pragma once
#include <deque>
#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace kinora::core {

// The rates of stages and their busy workers over the last ten seconds: a report's own are of about one second.
class RecentRates {
 public:
  // Replaces the members "rate" and "busy" of each stage, and, where a stage limits the run, "bound" with the busiest
  // by them. figures: as in abi/engine.h.
  void smooth(nlohmann::json& figures);

 private:
  struct Report {
    double seconds;
    std::map<std::string, double> taken, share;  // by stage: samples, and its workers' share that is busy
  };
  std::deque<Report> reports_;
};

// "37 clips kept, 4 filtered, 1 failed"; kinds that are 0 are left out. unit: "clips", of several; may be
// empty.
std::string outcomes_text(int64_t kept, int64_t filtered, int64_t failed, const std::string& unit);

// Rows of at most `columns`: the outcomes, the inputs at work, the stages with work to do, the one that limits the run
// first, the idle ones in one row, and the memory. outcomes: "" for none. at_work: inputs that have begun, the oldest
// first; those that wait for the stage that cuts them are counted.
std::vector<std::string> live_rows(const nlohmann::json& figures, const std::string& outcomes,
                                   const std::vector<std::string>& at_work, size_t columns, bool has_colours);

}  // namespace kinora::core
