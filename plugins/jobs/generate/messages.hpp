// The end of a model's process of the socket to `kinora serve`.
#pragma once
#include <mutex>
#include <optional>

#include "plugins/jobs/generate/json_lines.hpp"

namespace kinora::core {

class Messages {
 public:
  // socket: -1 of a process that has none.
  explicit Messages(int socket) : socket_(socket), lines_(socket) {}
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
};

}  // namespace kinora::core
