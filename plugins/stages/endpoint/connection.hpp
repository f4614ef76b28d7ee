// One HTTP connection, kept open between requests, with libcurl.
#pragma once
#include <cstdint>
#include <stdexcept>
#include <string>

#include "gate.hpp"

namespace kinora::endpoint {

struct Request {
  std::string url, key;  // key: the account's, sent as a bearer token; empty: none
  std::string body;      // JSON
  std::string ca_file;   // certificates to trust instead of the system's; empty: the system's
  double timeout = 120, connect_timeout = 10;  // seconds; timeout covers the whole request
  int64_t largest = 1 << 20;                   // largest answer, bytes
};

struct Response {
  long status = 0;
  std::string body;
  double retry_after = 0;  // seconds, 0: the server did not say
};

// Thrown when no complete answer arrived.
class Unanswered : public std::runtime_error {
 public:
  Unanswered(const std::string& why, bool again, bool nobody = false)
      : std::runtime_error(why), again_(again), nobody_(nobody) {}
  bool again() const { return again_; }    // whether a retry can help
  bool nobody() const { return nobody_; }  // no server was reached at the address

 private:
  bool again_, nobody_;
};

// [one thread at a time] Verifies certificates, does not follow redirects, uses the proxies of the
// environment (https_proxy, no_proxy and so on), and refuses protocols other than http and https.
class Connection {
 public:
  Connection();
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  // Throws Unanswered, or the exception that `stop` throws.
  Response post(const Request& request, const Stop& stop);

 private:
  void* multi_;  // keeps the connection between requests
  void* easy_;
};

// Returns why `url` cannot be a server's address, and what to do; empty if it is valid. It must contain
// neither user nor password, which belong in the environment.
std::string wrong_url(const std::string& url);
// Whether requests to this address travel unencrypted over a network.
bool goes_in_clear(const std::string& url);

}  // namespace kinora::endpoint
