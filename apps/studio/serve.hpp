// Serves the studio over HTTP, on loopback only, to those who know the address that the command prints.
#pragma once
#include <functional>
#include <string>
#include <string_view>

#include "apps/studio/studio.hpp"
#include "core/runtime/runtime.hpp"

namespace kinora::studio {

struct ServeOptions {
  int port = 0;                                           // 0: any free port
  std::function<void(const std::string& address)> ready;  // called once, when the server is ready
  std::function<bool()> stopped;                          // polled; true stops the server
};

// Why a port cannot be had, from the system's error, and what to do.
std::string port_problem(int port, int error);

// Runs until stopped() returns true. Throws Error KINORA_ERROR_INVALID if the port cannot be had.
void serve(core::Runtime&, Studio&, const ServeOptions&);

// Access control. The address that the command prints carries a random token; opening it stores the token in
// a cookie.
//
// Other users of the machine do not know the token. Browsers send a cookie to every port of an address, so another user's server on
// 127.0.0.1 may see it: therefore it is valid only for connections of the user whose browser received it. Pages of other sites in the user's browser: the
// cookie is SameSite=Strict, changes must come from our own origin as JSON, and no answer
// allows another origin. Names rebound to 127.0.0.1: the Host header must be ours.

// 128 random bits from the system as 32 hexadecimal digits. Throws Error KINORA_ERROR_FAILED.
std::string new_token();

struct Asked {
  bool changes = false;  // any method but GET and HEAD
  std::string host, cookies, origin, content_type;
  std::string token;  // parameter t of the address
  std::string owner;  // user id of the process that asks
};

class Guard {
 public:
  Guard(std::string token, int port) : token_(std::move(token)), port_(port) {}
  // Why a request is refused, or "".
  std::string refusal(const Asked&) const;
  // The value of Set-Cookie for a browser of this user. Its name contains the port, because cookies ignore
  // ports and two studios may run.
  std::string cookie(const std::string& owner) const;
  std::string address() const;  // contains the token

 private:
  std::string cookie_name() const;
  std::string cookie_value(const std::string& owner) const;  // not the token, and does not reveal it

  std::string token_;
  int port_;
};

}  // namespace kinora::studio
