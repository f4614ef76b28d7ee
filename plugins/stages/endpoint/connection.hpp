// One HTTP connection that is kept open from request to request, by libcurl.
#pragma once
#include <cstdint>
#include <stdexcept>
#include <string>

#include "gate.hpp"

namespace kinora::endpoint {

struct Request {
  std::string url, key;  // key: of the account, sent as a bearer token; empty: none
  std::string body;      // JSON
  std::string ca_file;   // certificates to trust instead of the system's; empty: the system's
  double timeout = 120, connect_timeout = 10;  // seconds; timeout is of the whole request
  int64_t largest = 1 << 20;                   // bytes of an answer
};

struct Response {
  long status = 0;
  std::string body;
  double retry_after = 0;  // seconds, 0: the server did not say
};

// No whole answer came.
class Unanswered : public std::runtime_error {
 public:
  Unanswered(const std::string& why, bool again, bool nobody = false)
      : std::runtime_error(why), again_(again), nobody_(nobody) {}
  bool again() const { return again_; }    // whether asking again can help
  bool nobody() const { return nobody_; }  // no server is at the address

 private:
  bool again_, nobody_;
};

// [one thread at a time] Certificates are verified, redirects are not followed, proxies are those of the
// environment (https_proxy, no_proxy and so on), other protocols than http and https are refused.
class Connection {
 public:
  Connection();
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  // Throws Unanswered, or what `stop` throws.
  Response post(const Request& request, const Stop& stop);

 private:
  void* multi_;  // keeps the connection between requests
  void* easy_;
};

// Why `url` cannot be a server's address, with the remedy; empty: it can. It holds neither user nor password,
// which belong into the environment.
std::string wrong_url(const std::string& url);
// Whether what is sent there can be read on the way.
bool goes_in_clear(const std::string& url);

}  // namespace kinora::endpoint
