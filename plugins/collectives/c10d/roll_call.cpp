#include "plugins/collectives/c10d/roll_call.hpp"

#include <algorithm>
#include <deque>
#include <exception>
#include <sstream>
#include <utility>

namespace kinora {

namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr const char* kCalled = "roll";

std::string roll_key(int64_t rank) { return "roll/" + std::to_string(rank); }

std::vector<uint8_t> bytes(const std::string& text) { return {text.begin(), text.end()}; }

// "3 1\nsum #17 of group 'dp'"
std::vector<uint8_t> written(const RollCall::Place& place) {
  std::string out;
  for (const int64_t r : place.waits_for) out += std::to_string(r) + " ";
  return bytes(out + "\n" + place.what);
}

RollCall::Place read(const std::vector<uint8_t>& note) {
  std::istringstream in({note.begin(), note.end()});
  std::string ranks;
  RollCall::Place out;
  std::getline(in, ranks);
  std::getline(in, out.what);
  std::istringstream each(ranks);
  for (int64_t r = 0; each >> r;) out.waits_for.push_back(r);
  return out;
}

bool holds(const std::vector<int64_t>& ranks, int64_t rank) {
  return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
}

}  // namespace

RollCall::RollCall(c10::intrusive_ptr<c10d::Store> store, int64_t rank, milliseconds time_limit)
    : store_(std::move(store)),
      rank_(rank),
      every_(std::clamp(time_limit / 40, milliseconds(20), milliseconds(500))),
      patience_(std::clamp(time_limit / 2, milliseconds(500), milliseconds(2000))) {
  store_->setTimeout(patience_);  // so that a missing store does not block until the world's time limit
  thread_ = std::thread([this] { watch(); });
}

RollCall::~RollCall() {
  {
    const std::scoped_lock lock(mutex_);
    ending_ = true;
  }
  ends_.notify_all();
  thread_.join();
}

RollCall::Wait::Wait(RollCall& roll, Place place, std::function<void()> wake) : roll_(roll) {
  const std::scoped_lock lock(roll.mutex_);
  if (roll.called_) wake();
  roll.waits_.emplace_back(std::move(place), std::move(wake));
  entry_ = std::prev(roll.waits_.end());
}

RollCall::Wait::~Wait() {
  const std::scoped_lock lock(roll_.mutex_);
  roll_.waits_.erase(entry_);
}

void RollCall::stand(Place place) {
  const std::scoped_lock lock(mutex_);
  standing_ = std::move(place);
}

bool RollCall::called() const {
  const std::scoped_lock lock(mutex_);
  return called_;
}

void RollCall::watch() {
  for (;;) {
    std::unique_lock lock(mutex_);
    if (ends_.wait_for(lock, every_, [this] { return ending_ || called_; })) return;
    lock.unlock();
    try {
      if (store_->check({kCalled})) return note(nullptr);
    } catch (const std::exception&) {
      return;  // the store ended with the process that served it: each rank waits for its own time limit
    }
  }
}

// Writes the note before it wakes a thread, since a woken rank may end its process. No lock is held during calls of the store.
void RollCall::note(const Place* mine) {
  std::optional<Place> place;
  {
    const std::scoped_lock lock(mutex_);
    if (!std::exchange(called_, true)) place = mine ? *mine : waits_.empty() ? standing_ : waits_.back().first;
  }
  std::exception_ptr failed;
  try {
    if (place) store_->set(roll_key(rank_), written(*place));
  } catch (const std::exception&) {
    failed = std::current_exception();
  }
  {
    const std::scoped_lock lock(mutex_);
    for (const auto& [where, wake] : waits_) wake();
  }
  if (failed) std::rethrow_exception(failed);
}

std::optional<RollCall::Place> RollCall::place_of(int64_t rank, steady_clock::time_point until) {
  for (;;) {
    if (store_->check({roll_key(rank)})) return read(store_->get(roll_key(rank)));
    if (steady_clock::now() >= until) return std::nullopt;
    std::this_thread::sleep_for(milliseconds(10));
  }
}

RollCall::Answers RollCall::call(const Place& mine, bool timed_out) {
  note(&mine);
  const auto first = store_->compareSet(kCalled, {}, bytes(timed_out ? "time" : "end"));
  Answers out;
  out.timed_out = std::string(first.begin(), first.end()) == "time";
  const auto until = steady_clock::now() + patience_;
  std::set<int64_t> asked{rank_};
  std::deque<int64_t> to_ask(mine.waits_for.begin(), mine.waits_for.end());
  for (; !to_ask.empty(); to_ask.pop_front()) {
    const int64_t rank = to_ask.front();
    if (!asked.insert(rank).second) continue;
    const auto place = place_of(rank, until);
    if (!place || place->what.empty()) {
      out.absent.insert(rank);
    } else if (place->what != mine.what || !holds(place->waits_for, rank_)) {  // groups may share a name
      out.at.push_back("rank " + std::to_string(rank) + " is in " + place->what);
      to_ask.insert(to_ask.end(), place->waits_for.begin(), place->waits_for.end());
    }
  }
  return out;
}

}  // namespace kinora
