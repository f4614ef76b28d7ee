// A client of raw sockets, for tests of the server.
#pragma once
#include <chrono>
#include <poll.h>
#include <string>
#include <string_view>
#include <thread>
#include <unistd.h>

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "apps/web/server.hpp"

namespace kinora::web {

class Client {
 public:
  // from: the last byte of this end's address 127.0.0.x, and its port; 0: any.
  explicit Client(int port, uint32_t from = 1, int from_port = 0) : socket_(socket(AF_INET, SOCK_STREAM, 0)) {
    const int on = 1;
    setsockopt(socket_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    sockaddr_in here{};
    here.sin_family = AF_INET;
    here.sin_port = htons(static_cast<uint16_t>(from_port));
    here.sin_addr.s_addr = htonl(0x7f000000U + from);
    EXPECT_EQ(bind(socket_, reinterpret_cast<const sockaddr*>(&here), sizeof here), 0);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<uint16_t>(port));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    is_open_ = connect(socket_, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0;
  }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  ~Client() { close(socket_); }

  // False once the server has closed the connection.
  bool send(std::string_view text) {
    while (is_open_ && !text.empty()) {
      const ssize_t n = ::send(socket_, text.data(), text.size(), MSG_NOSIGNAL);
      if (n <= 0) return is_open_ = false;
      text.remove_prefix(static_cast<size_t>(n));
    }
    return is_open_;
  }
  // The bytes that arrive until the server closes the connection, or up to `end`; the next call returns those
  // behind it.
  std::string receive(std::string_view end = "") {
    char bytes[4096];
    size_t at = std::string::npos;
    while (end.empty() || (at = arrived_.find(end)) == std::string::npos) {
      const ssize_t n = recv(socket_, bytes, sizeof bytes, 0);
      if (n <= 0) break;
      arrived_.append(bytes, static_cast<size_t>(n));
    }
    const size_t taken = at == std::string::npos ? arrived_.size() : at + end.size();
    std::string out = arrived_.substr(0, taken);
    arrived_.erase(0, taken);
    return out;
  }
  // Fewer bytes than asked for: the server has closed the connection.
  std::string receive_bytes(size_t count) {
    char bytes[4096];
    while (arrived_.size() < count) {
      const ssize_t n = recv(socket_, bytes, sizeof bytes, 0);
      if (n <= 0) break;
      arrived_.append(bytes, static_cast<size_t>(n));
    }
    std::string out = arrived_.substr(0, count);
    arrived_.erase(0, count);
    return out;
  }
  End end() const {
    sockaddr_in here{};
    socklen_t size = sizeof here;
    EXPECT_EQ(getsockname(socket_, reinterpret_cast<sockaddr*>(&here), &size), 0);
    return {ntohl(here.sin_addr.s_addr), ntohs(here.sin_port)};
  }
  bool is_closed_by_server() {
    pollfd wait{socket_, POLLIN, 0};
    char byte = 0;
    return poll(&wait, 1, 0) == 1 && recv(socket_, &byte, 1, MSG_PEEK | MSG_DONTWAIT) <= 0;
  }

 private:
  int socket_;
  bool is_open_ = false;
  std::string arrived_;  // and is not received yet
};

// Whether f becomes true within 30 seconds, on a machine with other work too.
template <class F>
bool eventually(F f) {
  for (int tries = 0; tries < 6000; ++tries) {
    if (f()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return f();
}

}  // namespace kinora::web
