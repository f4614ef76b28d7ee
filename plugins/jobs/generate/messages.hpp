// The end of a model's process of the socket to `kinora serve`.
#pragma once
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>

#include "plugins/jobs/generate/json_lines.hpp"

namespace kinora::core {

// With a sign of life each second, whatever the process does meanwhile.
class Messages {
 public:
  // socket: -1 of a process that has none.
  explicit Messages(int socket) : socket_(socket), lines_(socket) {
    if (socket < 0) return;
    beat_ = std::jthread([this](const std::stop_token& over) {
      constexpr std::chrono::seconds kBeat{1};
      std::mutex mutex;
      std::unique_lock lock(mutex);
      for (std::condition_variable_any end; !over.stop_requested();
           end.wait_for(lock, over, kBeat, [] { return false; }))
        send({{"beat", true}});
    });
  }
  // Nothing: the other end is gone.
  std::optional<nlohmann::json> next() { return lines_.next(); }
  // [any-thread] If the other end is gone, next() sees it.
  void send(const nlohmann::json& message) {
    const std::scoped_lock lock(sending_);
    send_all(socket_, json_line(message));
  }
  void end() { shutdown(socket_, SHUT_RDWR); }

 private:
  const int socket_;
  JsonLines lines_;
  std::mutex sending_;
  std::jthread beat_;  // last: it uses the others
};

}  // namespace kinora::core
