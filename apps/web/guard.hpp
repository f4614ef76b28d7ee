// Decides who may ask a server of this machine's user: whoever opened the address that the command printed.
//
// The address carries a random token; opening it stores the token in a cookie. Other users of the machine do not know
// the token. Browsers send a cookie to every port of an address, so another user's server on 127.0.0.1 may see it:
// therefore it is valid only for connections of the user whose browser received it. Pages of other sites in the user's
// browser: the cookie is SameSite=Strict, changes must come from our own origin as JSON, and no answer allows another
// origin. Names rebound to 127.0.0.1: the Host header must be ours.
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "apps/web/server.hpp"

namespace kinora::web {

// 128 random bits from the system as 32 hexadecimal digits. Throws Error KINORA_ERROR_FAILED.
std::string new_token();

// Takes the same time for every text of the secret's length.
bool is_secret(std::string_view text, std::string_view secret);

struct Caller {
  bool changes = false;  // any method but GET and HEAD
  std::string host, cookies, origin, content_type;
  std::string token;                   // parameter t of the address
  std::function<std::string()> owner;  // user id of the process that asks; costs time
};
Caller caller_of(const Request&);

class Guard {
 public:
  // program: "studio", as in `kinora studio`; part of the cookie's name and of what is said.
  Guard(std::string program, std::string token, int port)
      : program_(std::move(program)), token_(std::move(token)), port_(port) {}
  // Why a request is refused, or "". Asks for the owner only where the cookie is one of this program.
  std::string refusal(const Caller&) const;
  bool knows_token(const Caller&) const;
  bool knows_cookie(const Caller&) const;
  // The value of Set-Cookie for a browser of this user. Its name contains the port, because cookies ignore
  // ports and two programs may run.
  std::string cookie(const std::string& owner) const;
  std::string address() const;  // contains the token

 private:
  std::string cookie_name() const;
  std::string cookie_value(const std::string& owner) const;  // "OWNER.SECRET"; does not reveal the token
  bool is_cookie(std::string_view value, const Caller&) const;

  std::string program_, token_;
  int port_;
};

// Asks the guard before each request; a refusal is 403 with its reason, and whoever shows the token gets the cookie.
void guard_with(Server&, const Guard&);

// Why a port cannot be had, from the system's error, and what to do.
std::string port_problem(int port, int error, const std::string& address = "127.0.0.1");

}  // namespace kinora::web
