// Shows the progress of a long job: a bar with rate and remaining time on a terminal, otherwise an occasional line.
#pragma once
#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

namespace kinora::core {

class Progress {
 public:
  // total 0: unknown. unit: what is counted, "steps" or "clips".
  Progress(std::string label, int64_t total, std::string unit);
  ~Progress() { finish(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // [any-thread] note: a few words after the figures, such as "loss 0.123".
  void update(int64_t done, const std::string& note = "");
  // [any-thread] Sets the lines shown below the bar, on a terminal only.
  void table(std::vector<std::string> lines);
  // Draws the last state and ends the line; further calls do nothing.
  void finish();

 private:
  using Clock = std::chrono::steady_clock;
  void draw(bool last);
  std::string line() const;
  std::mutex mutex_;
  std::string label_, unit_, note_;
  std::vector<std::string> table_;
  int64_t total_, done_ = 0, first_ = -1;
  bool terminal_, finished_ = false, drawn_ = false;
  Clock::time_point start_ = Clock::now(), last_draw_{};
};

}  // namespace kinora::core
