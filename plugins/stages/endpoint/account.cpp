#include "account.hpp"

#include <tuple>
#include <utility>

namespace kinora::endpoint {

using Guard = std::lock_guard<std::mutex>;

std::shared_ptr<Account> Account::shared(const std::string& base_url, const std::string& model,
                                         const Limits& limits) {
  static std::mutex mutex;
  static std::map<std::tuple<std::string, std::string, Limits>, std::weak_ptr<Account>> all;
  const Guard lock(mutex);
  auto& known = all[{base_url, model, limits}];
  if (auto account = known.lock()) return account;
  auto account = std::make_shared<Account>(limits);
  known = account;
  return account;
}

std::unique_ptr<Connection> Account::borrow() {
  {
    const Guard lock(mutex_);
    if (!idle_.empty()) {
      auto out = std::move(idle_.back());
      idle_.pop_back();
      return out;
    }
  }
  return std::make_unique<Connection>();
}

void Account::give_back(std::unique_ptr<Connection> connection) {
  const Guard lock(mutex_);
  idle_.push_back(std::move(connection));
}

int64_t Account::expected(int64_t guess) const {
  const Guard lock(mutex_);
  return all_.answered > 0 ? (all_.prompt + all_.completion) / all_.answered : guess;
}

void Account::add(const std::string& stage, const Usage& usage) {
  const Guard lock(mutex_);
  used_[stage] += usage;
  all_ += usage;
}

Usage Account::take(const std::string& stage) {
  const Guard lock(mutex_);
  return std::exchange(used_[stage], {});
}

void Account::refuse(const std::string& why) {
  const Guard lock(mutex_);
  refused_ = why;
}

void Account::reached() {
  const Guard lock(mutex_);
  is_reached_ = true;
  missed_.clear();
}

size_t Account::missed(const std::string& key) {
  const Guard lock(mutex_);
  if (is_reached_) return 0;
  missed_.insert(key);
  return missed_.size();
}

bool Account::has_missed() const {
  const Guard lock(mutex_);
  return !missed_.empty();
}

std::string Account::refused() const {
  const Guard lock(mutex_);
  return refused_;
}

}  // namespace kinora::endpoint
