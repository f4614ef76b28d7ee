// Who may ask. The address that the command prints carries a random token; whoever opens it gets it as a
// cookie.
//
// Against other users of the machine: the token. Against pages of other sites in the user's browser: the
// cookie is SameSite=Strict, what changes something must come from our own origin as JSON, and no answer
// allows another origin. Against names that are rebound to 127.0.0.1: the Host header must be ours.
#pragma once
#include <string>
#include <string_view>

namespace kinora::studio {

// 128 random bits of the system, 32 hexadecimal digits. Throws Error KINORA_FAILED.
std::string new_token();

struct Asked {
  bool changes = false;  // anything but GET and HEAD
  std::string host, cookies, origin, content_type;
  std::string token;  // parameter t of the address
};

class Guard {
 public:
  Guard(std::string token, int port) : token_(std::move(token)), port_(port) {}
  // Why a request is refused, or "".
  std::string refusal(const Asked&) const;
  // The value of Set-Cookie. Its name has the port: cookies do not know ports, and two studios may run.
  std::string cookie() const;
  std::string address() const;  // with the token

 private:
  std::string cookie_name() const;
  bool is_token(std::string_view) const;  // in constant time

  std::string token_;
  int port_;
};

}  // namespace kinora::studio
