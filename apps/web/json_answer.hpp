// Answers of an API: JSON, also for errors.
#pragma once
#include <exception>

#include <nlohmann/json.hpp>

#include "apps/web/server.hpp"
#include "kinora/error.hpp"

namespace kinora::web {

// U+FFFD replaces bytes that are not UTF-8.
inline Answer json_answer(int status, const nlohmann::json& body) {
  return {.status = status,
          .type = "application/json",
          .headers = {{"Cache-Control", "no-store"}},
          .body = body.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)};
}

// f's answer, or its error as {"error"}: 404 for what does not exist, 400 for what the caller can correct, else 500.
template <class F>
Answer answer_or_error(F f) {
  try {
    return f();
  } catch (const Error& e) {
    const int status = e.code() == KINORA_ERROR_NOT_FOUND ? 404
                       : e.code() == KINORA_ERROR_INVALID ? 400
                                                          : 500;
    return json_answer(status, {{"error", e.what()}});
  } catch (const std::exception& e) {
    return json_answer(500, {{"error", e.what()}});
  }
}

}  // namespace kinora::web
