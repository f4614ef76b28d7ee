// Which redirects of a web server are followed: a server of shards is a stranger and must not choose which hosts of a
// closed network this machine asks, nor what it tells them.
#pragma once
#include <string>

#include <curl/curl.h>

namespace kinora::ranged {

// Whether an IPv4 or IPv6 address belongs to the public Internet: not private, shared, loopback, link-local,
// multicast or reserved (IANA's special-purpose registries, RFC 6890). False for anything else.
bool is_public(const std::string& address);

// The redirects of one request. From https they lead to https only. If the first server has a public address,
// so have all others; servers inside a network may redirect inside it. Names and passwords go to the first
// origin alone (scheme, host and port).
class Redirects {
 public:
  explicit Redirects(const std::string& first_url);
  // Why this redirect is not followed; empty if it may be.
  std::string refusal(const std::string& url) const;
  // Applies the rules to one request of the handle; this object must outlive it.
  void guard(CURL* handle, const std::string& url);
  // The reason for which guard() refused a connection; else empty.
  const std::string& problem() const { return problem_; }
  // Whether a connection to this address may carry the next request, which goes to `url`.
  bool may_connect(const std::string& address, const std::string& url);

 private:
  static int before_request(void* user, char* address, char* local, int port, int local_port) noexcept;
  std::string first_, now_, problem_;
  bool has_connected_ = false, is_public_ = false;
};

}  // namespace kinora::ranged
