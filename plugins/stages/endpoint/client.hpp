// Sends requests to an OpenAI-compatible server within the account's limits, with retries where they can
// help.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include <nlohmann/json.hpp>

#include "account.hpp"
#include "kinora/run.hpp"
#include "server_options.hpp"

namespace kinora::endpoint {

using Json = nlohmann::json;

// Serializes JSON; bytes that are not UTF-8 become U+FFFD.
inline std::string dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

struct Question {
  std::string key;                    // of the sample
  std::function<std::string()> body;  // built when the request is sent, because pictures are large
  int64_t tokens = 0;                 // estimated usage until answers give a mean
  std::string part{};                 // the part of the sample, such as ", frames 0 to 255", for messages
  // Also seeds the jitter.
  std::string about() const { return key + part; }
};

// [any-thread] A question that fails throws Error(KINORA_ERROR_DATA), which fails the sample. KINORA_ERROR_IO
// would make the engine retry the whole sample and pay again for its other answers. A refused key or model,
// or a server that was unreachable for all of the first samples, throws Error(KINORA_ERROR_REFUSED), which
// ends the run.
class Client {
 public:
  // stage: name in messages and totals. path: below base_url, such as "/chat/completions". Throws Error for
  // invalid options, including a key that is missing in the environment.
  Client(std::string stage, const ServerOptions&, const std::string& path);
  // Returns a kept answer at no cost, or asks the server and keeps the answer. If all answers are worth another try
  // (answers.hpp), it returns the last one. paid: gets the usage of every answered request, also if this throws.
  Json ask(const Question&, const Run&, Usage& paid) const;
  // Throws KINORA_ERROR_REFUSED once the server has refused the key or proved unreachable.
  void check_accepted() const;
  // Number of further questions that could be asked at once now.
  int64_t free() const { return account_->gate.free(); }
  // Returns one line on this stage's usage, once for all its instances; empty if there was none.
  std::string sums() const;
  double cost(const Usage&) const;
  bool priced() const { return options_.price_prompt > 0 || options_.price_completion > 0; }
  // Serializes a request with the members of `extra` added.
  std::string body(Json request) const;

 private:
  struct Attempt;
  Attempt attempt(const std::string& body, const Stop&) const;
  void require_retry(const Question&, const Attempt&, int64_t n) const;
  double backoff(int64_t attempt, const std::string& about, const Run&) const;
  [[noreturn]] void miss(const Question&, const std::string& why) const;
  [[noreturn]] void give_up(const Question&, const std::string& why) const;

  std::string stage_, url_, key_;
  const char* needed_;  // name of the list that an answer must have
  ServerOptions options_;
  Json extra_;
  std::shared_ptr<Account> account_;
};

}  // namespace kinora::endpoint
