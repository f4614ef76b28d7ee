#include "apps/serve/access.hpp"

#include <boost/algorithm/string/predicate.hpp>
#include <openssl/crypto.h>

#include "apps/serve/api_error.hpp"
#include "apps/web/guard.hpp"

namespace kinora::serve {
namespace {

// Takes the same time for every text of this length.
bool is_secret(std::string_view text, std::string_view secret) {
  return text.size() == secret.size() && CRYPTO_memcmp(text.data(), secret.data(), secret.size()) == 0;
}

std::string_view bearer_of(std::string_view header) {
  constexpr std::string_view kScheme = "Bearer ";
  return boost::istarts_with(header, kScheme) ? header.substr(kScheme.size()) : std::string_view();
}

}  // namespace

void guard_with(web::Server& server, const std::string& token) {
  server.set_guard([token](const web::Request& request, web::Headers& added) -> std::optional<web::Answer> {
    added.emplace_back("x-request-id", "req_" + web::new_token());
    const std::string origin = request.header("origin");
    if (!origin.empty() && origin != "http://" + request.header("host") &&
        origin != "https://" + request.header("host"))
      return answer_of(ApiError(403, "requests from pages of other sites are refused", "foreign_origin"));
    if (request.path == "/health") return std::nullopt;
    if (is_secret(bearer_of(request.header("authorization")), token)) return std::nullopt;
    web::Answer out = answer_of(ApiError(401,
                                         "the token is missing or wrong; send the one that kinora serve "
                                         "printed, as Authorization: Bearer TOKEN",
                                         "invalid_api_key"));
    out.headers.emplace_back("WWW-Authenticate", "Bearer");
    return out;
  });
}

}  // namespace kinora::serve
