// Lines of JSON over the socket between `kinora serve` and a model's process.
#pragma once
#include <cerrno>
#include <mutex>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>
#include <sys/socket.h>

namespace kinora::core {

class Messages {
 public:
  explicit Messages(int socket) : socket_(socket) {}
  // Nothing: the other end is gone.
  std::optional<nlohmann::json> next() {
    for (;;) {
      if (const size_t end = have_.find('\n'); end != std::string::npos) {
        nlohmann::json out = nlohmann::json::parse(have_.substr(0, end), nullptr, false);
        have_.erase(0, end + 1);
        if (out.is_object()) return out;
        continue;
      }
      char piece[64 << 10];
      const ssize_t n = recv(socket_, piece, sizeof piece, 0);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return std::nullopt;
      have_.append(piece, static_cast<size_t>(n));
    }
  }
  // [any-thread]
  void send(const nlohmann::json& message) {
    const std::string line = message.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
    const std::scoped_lock lock(sending_);
    for (size_t at = 0; at < line.size();) {
      const ssize_t n = ::send(socket_, line.data() + at, line.size() - at, MSG_NOSIGNAL);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return;  // next() sees that the other end is gone
      at += static_cast<size_t>(n);
    }
  }
  void end() { shutdown(socket_, SHUT_RDWR); }

 private:
  const int socket_;
  std::string have_;
  std::mutex sending_;
};
}  // namespace kinora::core
