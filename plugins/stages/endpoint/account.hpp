// What the workers of a process share for one server: its limits, open connections, and what was used.
//
// The one thing here that instances of a stage share: a server counts what an account asks for, not what one
// worker of it does. Engines that use several processes have the limits once in each.
#pragma once
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "connection.hpp"
#include "gate.hpp"

namespace kinora::endpoint {

struct Usage {
  int64_t answered = 0, again = 0;     // requests: answered, and asked again after a failure
  int64_t prompt = 0, completion = 0;  // tokens
  int64_t known = 0;                   // answers of before that were asked for again, and not paid
  Usage& operator+=(const Usage& o) {
    answered += o.answered;
    again += o.again;
    prompt += o.prompt;
    completion += o.completion;
    known += o.known;
    return *this;
  }
};

// [any-thread]
class Account {
 public:
  explicit Account(const Limits& limits) : gate(limits) {}
  // The one of this server, model and limits, as long as somebody has it.
  static std::shared_ptr<Account> shared(const std::string& base_url, const std::string& model,
                                         const Limits& limits);

  Gate gate;

  // An idle connection, or a new one.
  std::unique_ptr<Connection> borrow();
  void give_back(std::unique_ptr<Connection>);

  // Tokens of a request: the mean of the past ones, `guess` before the first.
  int64_t expected(int64_t guess) const;
  void add(const std::string& stage, const Usage&);
  // What the stage used since this was last asked.
  Usage take(const std::string& stage);

  // The server refuses the key or the model, or nobody is there: nobody needs to ask again.
  void refuse(const std::string& why);
  std::string refused() const;

  // A server has answered, be it with an error.
  void reached();
  // No server was there for the sample of this key. Of how many samples that is so; 0: one has answered
  // before.
  size_t missed(const std::string& key);

 private:
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<Connection>> idle_;
  std::map<std::string, Usage> used_;
  Usage all_;
  std::string refused_;
  bool is_reached_ = false;
  std::set<std::string> missed_;
};

}  // namespace kinora::endpoint
