// A loopback port whose connection queue is full: a further connection is neither accepted nor refused. For
// tests.
#pragma once
#include <array>
#include <string>
#include <unistd.h>

#include <netinet/in.h>
#include <sys/socket.h>

namespace kinora::test {

class FullPort {
 public:
  FullPort() : listener_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof at;
    auto* address = reinterpret_cast<sockaddr*>(&at);
    ::bind(listener_, address, size);
    ::listen(listener_, 0);
    ::getsockname(listener_, address, &size);
    port_ = ntohs(at.sin_port);
    for (int& one : waiting_) {
      one = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
      ::connect(one, address, size);
    }
  }
  FullPort(const FullPort&) = delete;
  FullPort& operator=(const FullPort&) = delete;
  ~FullPort() {
    for (const int one : waiting_) ::close(one);
    ::close(listener_);
  }
  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }

 private:
  int listener_, port_ = 0;
  std::array<int, 4> waiting_{};
};

}  // namespace kinora::test
