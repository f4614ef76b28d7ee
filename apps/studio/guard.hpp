// Access control. The address that the command prints carries a random token; opening it stores the token in a
// cookie.
//
// Other users of the machine do not know the token. Pages of other sites in the user's browser: the
// cookie is SameSite=Strict, changes must come from our own origin as JSON, and no answer
// allows another origin. Names rebound to 127.0.0.1: the Host header must be ours.
#pragma once
#include <string>
#include <string_view>

namespace kinora::studio {

// 128 random bits from the system as 32 hexadecimal digits. Throws Error KINORA_FAILED.
std::string new_token();

struct Asked {
  bool changes = false;  // any method but GET and HEAD
  std::string host, cookies, origin, content_type;
  std::string token;  // parameter t of the address
};

class Guard {
 public:
  Guard(std::string token, int port) : token_(std::move(token)), port_(port) {}
  // Why a request is refused, or "".
  std::string refusal(const Asked&) const;
  // The value of Set-Cookie. Its name contains the port, because cookies ignore ports and two studios may run.
  std::string cookie() const;
  std::string address() const;  // contains the token

 private:
  std::string cookie_name() const;
  bool is_token(std::string_view) const;  // compares in constant time

  std::string token_;
  int port_;
};

}  // namespace kinora::studio
