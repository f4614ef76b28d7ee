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

using Addresses = std::unique_ptr<addrinfo, void (*)(addrinfo*)>;

// Null if the name is not known.
Addresses addresses_of(const std::string& host, uint16_t port, int type) {
  addrinfo hints{};
  hints.ai_socktype = type;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found) != 0) found = nullptr;
  return {found, ::freeaddrinfo};
}

bool others_reach_own_name() {
  char name[256] = {};
  ::gethostname(name, sizeof name - 1);
  const Addresses all = addresses_of(name, 0, SOCK_STREAM);
  return all && !is_loopback(*all);
}

// The numeric address from which packets to `at` go; nothing is sent. "" if there is no way there.
std::string source_towards(const addrinfo& at) {
  const int fd = ::socket(at.ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  sockaddr_storage mine{};
  socklen_t size = sizeof mine;
  auto* address = reinterpret_cast<sockaddr*>(&mine);
  char text[NI_MAXHOST] = "";
  if (fd < 0 || ::connect(fd, at.ai_addr, at.ai_addrlen) != 0 || ::getsockname(fd, address, &size) != 0 ||
      ::getnameinfo(address, size, text, sizeof text, nullptr, 0, NI_NUMERICHOST) != 0)
    text[0] = 0;
  if (fd >= 0) ::close(fd);
  return text;
}

}  // namespace

std::string own_address(const std::string& host, uint16_t port) {
  if (names_loopback(host)) return "127.0.0.1";
  if (others_reach_own_name()) return "";
  const Addresses all = addresses_of(host, port, SOCK_DGRAM);
  for (const addrinfo* at = all.get(); at; at = at->ai_next)
    if (const std::string source = source_towards(*at); !source.empty()) return source;
  return "";
}

std::optional<int> bound_socket(const std::string& host, uint16_t port) {
  const Addresses all = addresses_of(host, port, SOCK_STREAM);
  for (const addrinfo* at = all.get(); at; at = at->ai_next) {
    if (is_loopback(*at) && !names_loopback(host)) continue;
    if (const int fd = bind_to(*at); fd >= 0) return fd;
    if (errno == EADDRINUSE || errno == EACCES) throw Error(KINORA_ERROR_IO, std::strerror(errno));
  }
  return std::nullopt;
}

}  // namespace kinora
