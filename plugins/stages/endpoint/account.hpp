// State that all workers of a process share for one server: limits, open connections and usage.
//
// Instances of a stage share nothing else. They share this because a server limits the account, not one
// worker. With an engine of several processes, the limits apply to each process separately.
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
  int64_t answered = 0, again = 0;     // requests: answered, and repeated after a failure
  int64_t prompt = 0, completion = 0;  // tokens
  int64_t known = 0;                   // kept answers that were used again at no cost
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
  // Returns the account of this server, model and limits; it lives as long as it is referenced.
  static std::shared_ptr<Account> shared(const std::string& base_url, const std::string& model,
                                         const Limits& limits);

  Gate gate;

  // Returns an idle connection, or a new one.
  std::unique_ptr<Connection> borrow();
  void give_back(std::unique_ptr<Connection>);

  // Expected tokens of a request: the mean of past requests, or `guess` before the first answer.
  int64_t expected(int64_t guess) const;
  void add(const std::string& stage, const Usage&);
  // Returns the stage's usage since the previous call.
  Usage take(const std::string& stage);

  // Records that the server refuses the key or the model, or cannot be reached, so that no more requests are
  // sent.
  void refuse(const std::string& why);
  std::string refused() const;

  // Records that a server has answered, possibly with an error.
  void reached();
  // Records that no server was reached for the sample with this key. Returns the number of such samples; 0 if
  // a server has answered before.
  size_t missed(const std::string& key);
  // Whether a sample has missed the server, and none has reached it.
  bool has_missed() const;

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
