#include "apps/web/guard.hpp"

#include <array>
#include <cerrno>
#include <cstring>

#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/rand.h>

#include "apps/web/json_answer.hpp"
#include "core/base/digest.hpp"
#include "kinora/error.hpp"

namespace kinora::web {

Caller caller_of(const Request& request) {
  return {request.method != "GET" && request.method != "HEAD",
          request.header("host"),
          request.header("cookie"),
          request.header("origin"),
          request.header("content-type"),
          request.parameter("t"),
          request.owner};
}

void guard_with(Server& server, const Guard& guard) {
  server.set_guard([guard](const Request& request, Headers& added) -> std::optional<Answer> {
    const Caller asked = caller_of(request);
    if (const std::string why = guard.refusal(asked); !why.empty()) return json_answer(403, {{"error", why}});
    if (guard.knows_token(asked)) added.emplace_back("Set-Cookie", guard.cookie(asked.owner()));
    return std::nullopt;
  });
}

std::string port_problem(int port, int error, const std::string& address) {
  const std::string what = fmt::format("port {} of {} ", port, address);
  if (error == EACCES)
    return what + "needs root; choose a port from 1024 on with --port, or leave out --port";
  if (error == EADDRINUSE)
    return what + "is in use by another program. Choose another with --port, or leave out --port";
  return what + "cannot be had: " + std::strerror(error) + ". Choose another with --port";
}

std::string new_token() {
  std::array<unsigned char, 16> bytes{};
  if (RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) != 1)
    throw Error(KINORA_ERROR_FAILED, "the system's random numbers are unavailable");
  std::string out;
  for (const unsigned char byte : bytes) out += fmt::format("{:02x}", byte);
  return out;
}

std::string Guard::cookie_name() const { return fmt::format("kinora_{}_{}", program_, port_); }

std::string Guard::cookie_value(const std::string& owner) const {
  return owner + "." + core::sha256("cookie of " + program_ + " " + token_ + " for user " + owner);
}

std::string Guard::cookie(const std::string& owner) const {
  return cookie_name() + "=" + cookie_value(owner) + "; Path=/; HttpOnly; SameSite=Strict";
}

std::string Guard::address() const { return fmt::format("http://127.0.0.1:{}/?t={}", port_, token_); }

bool is_secret(std::string_view text, std::string_view secret) {
  return text.size() == secret.size() && CRYPTO_memcmp(text.data(), secret.data(), secret.size()) == 0;
}

bool Guard::knows_token(const Caller& asked) const { return is_secret(asked.token, token_); }

// The secret in it shows whose it is, before anything of the system is read for who may be anybody.
bool Guard::is_cookie(std::string_view value, const Caller& asked) const {
  const std::string owner(value.substr(0, value.find('.')));
  return is_secret(value, cookie_value(owner)) && asked.owner() == owner;
}

bool Guard::knows_cookie(const Caller& asked) const {
  const std::string name = cookie_name() + "=";
  std::string_view rest = asked.cookies;
  while (!rest.empty()) {
    const auto end = rest.find(';');
    std::string_view one = rest.substr(0, end);
    one.remove_prefix(std::min(one.find_first_not_of(' '), one.size()));
    if (one.starts_with(name) && is_cookie(one.substr(name.size()), asked)) return true;
    rest.remove_prefix(end == rest.npos ? rest.size() : end + 1);
  }
  return false;
}

std::string Guard::refusal(const Caller& asked) const {
  const std::string here = fmt::format("127.0.0.1:{}", port_), local = fmt::format("localhost:{}", port_);
  if (asked.host != here && asked.host != local) return "the Host header does not name this " + program_;
  if (!knows_token(asked) && !knows_cookie(asked))
    return "open the address that kinora " + program_ + " printed; it changes with every start";
  if (!asked.origin.empty() && asked.origin != "http://" + asked.host)
    return "requests from other sites are refused";
  if (asked.changes && (asked.origin.empty() || !asked.content_type.starts_with("application/json")))
    return "changes must come from the " + program_ + "'s page, as JSON";
  return "";
}

}  // namespace kinora::web
