// Asks an OpenAI-compatible server, again where that can help, within the account's limits.
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

// JSON of anything: bytes that are not UTF-8 become U+FFFD.
inline std::string dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

struct Question {
  std::string key;                    // of the sample
  std::function<std::string()> body;  // made when it is this question's turn: pictures are large
  int64_t tokens = 0;                 // guess of what it takes, until answers tell
  std::string part{};                 // ", frames 0 to 255": of what of the sample, for messages
  // Seeds the jitter too.
  std::string about() const { return key + part; }
};

// The answer, a JSON object, and what it took.
struct Answered {
  Json json;
  Usage usage;
};

// [any-thread] Every failure that ends a question is Error(KINORA_DATA), of the sample: an engine that tried
// the whole sample again (KINORA_IO) would ask once more what has been answered and paid for. A key that is
// refused is Error(KINORA_STOP), which ends the run, and so is a server that was not there for the first
// samples and has answered nobody yet, or has no such model.
class Client {
 public:
  // `stage` names it in messages and sums; `path` is below base_url, "/chat/completions". Throws Error for
  // options that cannot be, a key that the environment lacks among them.
  Client(std::string stage, const ServerOptions&, const std::string& path);
  // An answer that was kept costs nothing; a new one is kept.
  Answered ask(const Question&, const Run&) const;
  // Throws KINORA_STOP once the server has refused the key, or was there for nobody.
  void check_accepted() const;
  // How many more questions could be asked at once now.
  int64_t free() const { return account_->gate.free(); }
  // One line about what this stage used, once for all its instances; empty if nothing.
  std::string sums() const;
  double cost(const Usage&) const;
  bool priced() const { return options_.price_prompt > 0 || options_.price_completion > 0; }
  // A request's members with those of `extra`.
  std::string body(Json request) const;

 private:
  struct Attempt;
  Attempt attempt(const std::string& body, const Stop&) const;
  Attempt judge(const Response&) const;
  std::string refusal(const Response&) const;
  double backoff(int64_t attempt, const std::string& about, const Run&) const;
  [[noreturn]] void miss(const Question&, const std::string& why) const;
  [[noreturn]] void give_up(const Question&, const std::string& why) const;

  std::string stage_, url_, key_;
  const char* needed_;  // the list that an answer has
  ServerOptions options_;
  Json extra_;
  std::shared_ptr<Account> account_;
};

}  // namespace kinora::endpoint
