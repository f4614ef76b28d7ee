#include "plugins/collectives/c10d/listener.hpp"

#include <cerrno>
#include <cstring>
#include <memory>
#include <netdb.h>
#include <unistd.h>

#include <netinet/in.h>
#include <sys/socket.h>

#include "kinora/error.hpp"

namespace kinora {
namespace {

bool is_loopback(const addrinfo& at) {
  if (at.ai_family == AF_INET)
    return ntohl(reinterpret_cast<const sockaddr_in*>(at.ai_addr)->sin_addr.s_addr) >> 24 == 127;
  return at.ai_family == AF_INET6 &&
         IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6*>(at.ai_addr)->sin6_addr);
}

// Whether the name says by itself that all ranks are on this machine.
bool names_loopback(const std::string& host) {
  return host == "localhost" || host == "::1" || host.rfind("127.", 0) == 0;
}

// -1 with errno.
int bind_to(const addrinfo& at) {
  const int fd = ::socket(at.ai_family, at.ai_socktype | SOCK_CLOEXEC, at.ai_protocol);
  if (fd < 0) return -1;
  const int on = 1;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (::bind(fd, at.ai_addr, at.ai_addrlen) == 0) return fd;
  const int error = errno;
  ::close(fd);
  errno = error;
  return -1;
}

}  // namespace

std::optional<int> bound_socket(const std::string& host, uint16_t port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found) != 0) return std::nullopt;
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> all(found, ::freeaddrinfo);
  for (const addrinfo* at = found; at; at = at->ai_next) {
    if (is_loopback(*at) && !names_loopback(host)) continue;
    if (const int fd = bind_to(*at); fd >= 0) return fd;
    if (errno == EADDRINUSE || errno == EACCES) throw Error(KINORA_ERROR_IO, std::strerror(errno));
  }
  return std::nullopt;
}

}  // namespace kinora
