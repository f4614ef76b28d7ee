// Signs of life of a model's processes, its ranks, to `kinora serve`: all of them write to one pipe.
#pragma once
#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <fcntl.h>
#include <map>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <unistd.h>

#include "kinora/error.hpp"

namespace kinora::core {

using Beat = uint16_t;  // the rank of the process

// One each second, whatever the process does meanwhile.
class Beats {
 public:
  // pipe: of HeardBeats; -1: nobody listens.
  Beats(int pipe, Beat rank) {
    if (pipe < 0) return;
    thread_ = std::jthread([pipe, rank](const std::stop_token& over) {
      constexpr std::chrono::seconds kBeat{1};
      std::mutex mutex;
      std::unique_lock lock(mutex);
      std::condition_variable_any end;
      do {
        // A full pipe has beats that are not heard yet.
        [[maybe_unused]] const ssize_t n = write(pipe, &rank, sizeof rank);
        end.wait_for(lock, over, kBeat, [] { return false; });
      } while (!over.stop_requested());
    });
  }

 private:
  std::jthread thread_;
};

// [any-thread] The other end.
class HeardBeats {
 public:
  HeardBeats() {
    if (pipe2(ends_.data(), O_CLOEXEC | O_NONBLOCK) != 0)
      throw Error(KINORA_ERROR_FAILED, std::string("no pipe for a model's process: ") + std::strerror(errno));
  }
  HeardBeats(const HeardBeats&) = delete;
  HeardBeats& operator=(const HeardBeats&) = delete;
  ~HeardBeats() {
    for (const int end : ends_) close(end);
  }
  // The descriptor for the processes, which ends with this object.
  int pipe() const { return ends_[1]; }
  // Seconds since the last beat of the rank that has been silent longest, of those that have begun to beat.
  double silence() {
    const std::scoped_lock lock(mutex_);
    const auto now = std::chrono::steady_clock::now();
    std::array<Beat, 1024> ranks;
    for (ssize_t n; (n = read(ends_[0], ranks.data(), sizeof ranks)) > 0;)
      for (size_t i = 0; i < static_cast<size_t>(n) / sizeof(Beat); ++i) heard_[ranks[i]] = now;
    double out = 0;
    for (const auto& [_, at] : heard_) out = std::max(out, std::chrono::duration<double>(now - at).count());
    return out;
  }

 private:
  std::array<int, 2> ends_{-1, -1};
  std::mutex mutex_;  // of the following
  std::map<Beat, std::chrono::steady_clock::time_point> heard_;
};

}  // namespace kinora::core
