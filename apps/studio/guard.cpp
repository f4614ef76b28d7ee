#include "apps/studio/guard.hpp"

#include <array>

#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/rand.h>

#include "core/base/status.hpp"

namespace kinora::studio {

std::string new_token() {
  std::array<unsigned char, 16> bytes{};
  if (RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) != 1)
    throw Error(KINORA_FAILED, "the system's random numbers are unavailable");
  std::string out;
  for (const unsigned char byte : bytes) out += fmt::format("{:02x}", byte);
  return out;
}

std::string Guard::cookie_name() const { return fmt::format("kinora_studio_{}", port_); }

std::string Guard::cookie() const {
  return cookie_name() + "=" + token_ + "; Path=/; HttpOnly; SameSite=Strict";
}

std::string Guard::address() const { return fmt::format("http://127.0.0.1:{}/?t={}", port_, token_); }

bool Guard::is_token(std::string_view text) const {
  return text.size() == token_.size() && CRYPTO_memcmp(text.data(), token_.data(), token_.size()) == 0;
}

std::string Guard::refusal(const Asked& asked) const {
  const std::string here = fmt::format("127.0.0.1:{}", port_), local = fmt::format("localhost:{}", port_);
  if (asked.host != here && asked.host != local) return "the Host header does not name this studio";
  bool known = is_token(asked.token);
  const std::string name = cookie_name() + "=";
  std::string_view rest = asked.cookies;
  while (!rest.empty()) {
    const auto end = rest.find(';');
    std::string_view one = rest.substr(0, end);
    one.remove_prefix(std::min(one.find_first_not_of(' '), one.size()));
    if (one.starts_with(name)) known |= is_token(one.substr(name.size()));
    rest.remove_prefix(end == rest.npos ? rest.size() : end + 1);
  }
  if (!known) return "open the address that kinora studio printed; it changes with every start";
  if (!asked.origin.empty() && asked.origin != "http://" + asked.host) return "requests from other sites are refused";
  if (asked.changes && (asked.origin.empty() || !asked.content_type.starts_with("application/json")))
    return "changes must come from the studio's page, as JSON";
  return "";
}

}  // namespace kinora::studio
