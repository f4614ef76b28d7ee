#include "plugins/collectives/c10d/listener.hpp"

#include <cerrno>
#include <memory>
#include <netdb.h>
#include <poll.h>
#include <unistd.h>

#include <sys/socket.h>

#include "kinora/error.hpp"

namespace kinora {

namespace {

// Limit of one attempt: a lost packet is sent again by the next one.
constexpr int kAttemptMs = 1000;

bool takes_connections(const addrinfo& at) {
  const int fd = socket(at.ai_family, at.ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, at.ai_protocol);
  if (fd < 0) return false;
  bool done = connect(fd, at.ai_addr, at.ai_addrlen) == 0;
  if (!done && errno == EINPROGRESS) {
    pollfd wait{fd, POLLOUT, 0};
    int error = 0;
    socklen_t size = sizeof error;
    done = poll(&wait, 1, kAttemptMs) == 1 && getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 &&
           error == 0;
  }
  close(fd);
  return done;
}

// Empty if a process listens there; else the reason. A host name may become known while ranks start.
std::string refusal(const std::string& host, uint16_t port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found))
    return "the host name '" + host + "' is not known (" + gai_strerror(error) + ")";
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> all(found, freeaddrinfo);
  for (const addrinfo* at = found; at; at = at->ai_next)
    if (takes_connections(*at)) return "";
  return "no process listens at " + host + ":" + std::to_string(port);
}

}  // namespace

void wait_for_listener(const std::string& who, const std::string& host, uint16_t port,
                       const std::string& expected, Patience& patience) {
  std::string why;
  while (!(why = refusal(host, port)).empty())
    if (!patience.more([&] { return expected + ", for " + why; }))
      throw Error(KINORA_TIMEOUT, who + ": " + why + " after " + std::to_string(patience.limit().count()) +
                                      " ms; " + expected + " must be started there");
}

}  // namespace kinora
