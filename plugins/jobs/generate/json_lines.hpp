// Messages between `kinora serve` and the processes of its models: JSON objects, one a line, over a socket.
#pragma once
#include <cerrno>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>
#include <sys/socket.h>

namespace kinora::core {

inline std::string json_line(const nlohmann::json& message) {
  return message.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

// False: the other end is gone.
inline bool send_all(int socket, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

// [one thread]
class JsonLines {
 public:
  explicit JsonLines(int socket) : socket_(socket) {}
  // The next object; other lines are skipped. Nothing: the other end is gone, or its line is too long.
  std::optional<nlohmann::json> next() {
    constexpr size_t kLongestLine = 16 << 20;
    for (;;) {
      if (const size_t end = have_.find('\n'); end != std::string::npos) {
        auto out = nlohmann::json::parse(have_.substr(0, end), nullptr, false);
        have_.erase(0, end + 1);
        if (out.is_object()) return out;
        continue;
      }
      char piece[64 << 10];
      const ssize_t n = recv(socket_, piece, sizeof piece, 0);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0 || have_.size() > kLongestLine) return std::nullopt;
      have_.append(piece, static_cast<size_t>(n));
    }
  }

 private:
  const int socket_;
  std::string have_;
};

}  // namespace kinora::core
