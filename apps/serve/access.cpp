#include "apps/serve/access.hpp"

#include <cctype>
#include <optional>
#include <utility>

#include <boost/algorithm/string/predicate.hpp>
#include <fmt/format.h>

#include "apps/serve/api_error.hpp"
#include "apps/web/guard.hpp"

namespace kinora::serve {
namespace {

std::string_view bearer_of(std::string_view header) {
  constexpr std::string_view kScheme = "Bearer ";
  return boost::istarts_with(header, kScheme) ? header.substr(kScheme.size()) : std::string_view();
}

// A browser's WebSocket cannot set other headers, so it has the token in the subprotocol kinora.TOKEN.
std::string_view token_of_socket(std::string_view protocols) {
  constexpr std::string_view kBegin = "kinora.";
  protocols = protocols.substr(0, protocols.find(','));
  return protocols.starts_with(kBegin) ? protocols.substr(kBegin.size()) : std::string_view();
}

// Whether the cookie is enough for this: changes must come from the page, and from nothing that a form of another
// page can send. Origin is ours if there is one.
bool is_for_cookie(const web::Request& request, const web::Caller& asked) {
  if (!asked.changes) return true;
  return !asked.origin.empty() &&
         (request.method == "DELETE" || asked.content_type.starts_with("application/json") ||
          asked.content_type.starts_with("multipart/form-data"));
}

// A token, and the cookie that stands for it. Both have the same name, so the address that was opened last decides.
class Key {
 public:
  Key(std::string token, int port) : token_(std::move(token)), page_("serve", token_, port) {}

  bool is_shown_by(const web::Request& request) const {
    return web::is_secret(bearer_of(request.header("authorization")), token_) ||
           web::is_secret(token_of_socket(request.header("sec-websocket-protocol")), token_);
  }
  // Gives the cookie to whoever opens the page's address.
  bool opens_page(const web::Request& request, const web::Caller& asked, web::Headers& added) const {
    if (request.path != "/" || !page_.knows_token(asked)) return false;
    added.emplace_back("Set-Cookie", page_.cookie(asked.owner()));
    return true;
  }
  bool knows_cookie(const web::Caller& asked) const { return page_.knows_cookie(asked); }

 private:
  std::string token_;
  web::Guard page_;
};

web::Answer refusal_of_reader() {
  return answer_of(ApiError(
      403, "this token only reads; whoever makes, changes or deletes videos needs the server's other token",
      "read_only"));
}

web::Answer refusal_of_stranger() {
  web::Answer out = answer_of(ApiError(
      401,
      "the token is missing or wrong; send the one that kinora serve printed, as Authorization: Bearer "
      "TOKEN, or open the page's address in a browser",
      "invalid_api_key"));
  out.headers.emplace_back("WWW-Authenticate", "Bearer");
  return out;
}

// The answer to a request with the read-only token or its cookie; nothing: the request may pass.
std::optional<web::Answer> answer_to_reader(const web::Request& request, const web::Caller& asked,
                                            web::Headers& added) {
  if (asked.changes || request.headers.contains("upgrade")) return refusal_of_reader();
  added.emplace_back("x-kinora-access", "read");
  return std::nullopt;
}

}  // namespace

void guard_with(web::Server& server, const std::string& token, int port, const std::string& read_token) {
  const auto reading =
      read_token.empty() ? std::nullopt : std::optional<Key>(std::in_place, read_token, port);
  server.set_guard([all = Key(token, port), reading](const web::Request& request,
                                                     web::Headers& added) -> std::optional<web::Answer> {
    added.emplace_back("x-request-id", "req_" + web::new_token());
    const std::string origin = request.header("origin");
    if (!origin.empty() && origin != "http://" + request.header("host") &&
        origin != "https://" + request.header("host"))
      return answer_of(ApiError(403, "requests from pages of other sites are refused", "foreign_origin"));
    if (request.path == "/health" || all.is_shown_by(request)) return std::nullopt;
    const web::Caller asked = web::caller_of(request);
    if (reading && reading->is_shown_by(request)) return answer_to_reader(request, asked, added);
    if (all.opens_page(request, asked, added)) return std::nullopt;
    if (reading && reading->opens_page(request, asked, added)) return answer_to_reader(request, asked, added);
    if (all.knows_cookie(asked)) {
      if (is_for_cookie(request, asked)) return std::nullopt;
      return answer_of(ApiError(
          403, "changes with the page's cookie must come from the page, as JSON or a form", "not_of_page"));
    }
    if (reading && reading->knows_cookie(asked)) return answer_to_reader(request, asked, added);
    return refusal_of_stranger();
  });
}

std::string page_address(const std::string& url, const std::string& token) {
  std::string out = url + "?t=";
  for (const char c : token)
    out += std::isalnum(static_cast<unsigned char>(c)) != 0
               ? std::string(1, c)
               : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  return out;
}

}  // namespace kinora::serve
