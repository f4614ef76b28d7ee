#include "judging.hpp"

#include <fmt/format.h>

#include "answers.hpp"

namespace kinora::endpoint {
namespace {

// Whether the same request may succeed after this status (RFC 9110, RFC 6585, RFC 8470).
bool is_passing(long status) {
  return status == 408 || status == 409 || status == 425 || status == 429 || status >= 500;
}

// The change of the run file without which no request can succeed; "": one may.
std::string remedy_for(long status, std::string_view body, const ServerRequest& asked) {
  if (status == 401 || status == 403)
    return asked.key.empty() ? "no key was sent: name the environment variable that holds it in api_key_env"
                             : "the key in api_key_env is not accepted";
  if (says_no_model(status, body, asked.model))
    return fmt::format("the server has no model '{}': set model of {} to one that it has", asked.model,
                       asked.stage);
  return "";
}

std::string refused_by(const std::string& problem, const std::string& remedy) {
  return remedy.empty()
             ? ""
             : fmt::format("{}; {}. Fix it and run again: answered requests are kept", problem, remedy);
}

// The server's code says what a status would have said; without one another attempt may succeed.
Judgement judged_error(const ReportedError& error, const ServerRequest& asked) {
  Judgement out;
  out.problem =
      fmt::format("{}: the answer with status 200 is an error{}: {}", asked.url,
                  error.status > 0 ? fmt::format(" {}", error.status) : "", shown(error.words, asked.key));
  out.again = !error.is_of_request && (error.status == 0 || is_passing(error.status));
  out.refused = refused_by(out.problem, remedy_for(error.status, error.words, asked));
  return out;
}

// told: an excerpt of the answer. A model has been paid for what has a choice, a usage, or begins as an answer does.
Judgement judged_answer(Json answer, const std::string& told, const ServerRequest& asked) {
  Judgement out;
  if (const auto error = error_in(answer)) {
    out = judged_error(*error, asked);
  } else if (const auto found = answer.is_object() ? answer.find(asked.needed) : answer.end();
             found != answer.end() && found->is_array() && !found->empty()) {
    const std::string why = worth_another_try(answer);
    out.again = !why.empty();
    if (out.again) out.problem = asked.url + ": " + shown(why, asked.key);
    out.usage = usage_of(answer);
    out.answer = std::move(answer);
    return out;
  } else {
    out.problem = answer.is_object()
                      ? fmt::format(
                            "{}: the answer has no {}: {}; base_url of {} must name a server that speaks "
                            "OpenAI's protocol",
                            asked.url, asked.needed, told, asked.stage)
                      : fmt::format("{}: the answer is not a JSON object: {}", asked.url, told);
    out.again = true;
  }
  if (answer.is_object() ? answer.contains("usage") : told.starts_with('{')) out.usage = usage_of(answer);
  return out;
}

}  // namespace

Judgement judged(const Response& response, const ServerRequest& asked) {
  const std::string told = shown(response.body, asked.key);
  Judgement out;
  if (response.status == 200) {
    out = judged_answer(parsed(response.body), told, asked);
  } else {
    out.problem =
        fmt::format("{}: status {}{}{}", asked.url, response.status, told.empty() ? "" : ": ", told);
    // OpenAI also sends 429 if the account is out of money, which waiting does not fix.
    out.again = is_passing(response.status) && response.body.find("insufficient_quota") == std::string::npos;
    std::string remedy = remedy_for(response.status, response.body, asked);
    if (remedy.empty() && response.status == 404)
      remedy = fmt::format(
          "this address does not exist on the server: set base_url of {} to the server's, with its version",
          asked.stage);
    out.refused = refused_by(out.problem, remedy);
  }
  out.retry_after = response.retry_after;
  return out;
}

}  // namespace kinora::endpoint
