// Errors of the HTTP API, in the form that OpenAI's clients read.
#pragma once
#include <stdexcept>
#include <string>

#include "apps/web/json_answer.hpp"

namespace kinora::serve {

// {"error": {"message", "type", "param", "code"}} with this status.
struct ApiError : std::runtime_error {
  ApiError(int of, const std::string& message, std::string what_code = "", std::string parameter = "")
      : std::runtime_error(message), status(of), code(std::move(what_code)), param(std::move(parameter)) {}
  int status;
  std::string code, param;
  web::Headers headers{};  // beside the usual ones
};

inline const char* type_of(int status) {
  if (status == 401) return "authentication_error";
  if (status == 403) return "permission_error";
  if (status == 429) return "rate_limit_error";
  return status >= 500 ? "server_error" : "invalid_request_error";
}

inline web::Answer answer_of(const ApiError& e) {
  const auto text = [](const std::string& s) { return s.empty() ? nlohmann::json() : nlohmann::json(s); };
  web::Answer out = web::json_answer(e.status, {{"error",
                                                 {{"message", e.what()},
                                                  {"type", type_of(e.status)},
                                                  {"param", text(e.param)},
                                                  {"code", text(e.code)}}}});
  out.headers.insert(out.headers.end(), e.headers.begin(), e.headers.end());
  return out;
}

}  // namespace kinora::serve
