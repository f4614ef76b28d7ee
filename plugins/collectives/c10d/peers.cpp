#include "plugins/collectives/c10d/peers.hpp"

#include <algorithm>
#include <deque>
#include <exception>
#include <sstream>
#include <utility>

namespace kinora {

namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

bool is_timeout(const std::string& text) {
  return text.find("imed out") != std::string::npos || text.find("imeout") != std::string::npos;
}

std::string listed(const std::set<int64_t>& ranks) {
  std::string out;
  for (const int64_t r : ranks) out += (out.empty() ? "" : ", ") + std::to_string(r);
  return (ranks.size() == 1 ? "rank " : "ranks ") + out;
}

// The first line, without the C++ stack that libtorch appends.
std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

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

RollCall::Place Peers::place(const std::string& what, int64_t peer) const {
  RollCall::Place out{what + " of group '" + name + "'", {}};
  for (int64_t r = 0; r < size(); ++r)
    if (r != rank && (peer < 0 || r == peer)) out.waits_for.push_back(members[static_cast<size_t>(r)]);
  return out;
}

Error Peers::failure(const std::string& what, const std::string& text, int64_t peer) const {
  constexpr size_t kNamed = 4;  // most ranks named of those that wait elsewhere: one of them shows the cause
  const RollCall::Place here = place(what, peer);
  RollCall::Answers said;
  said.timed_out = is_timeout(text);
  std::string more;
  try {
    if (leave) leave();
    said = roll->call(here, said.timed_out);
    if (!said.absent.empty())
      more = "; " + listed(said.absent) + " did not take part: its log says why, or it needs more time";
    for (size_t i = 0; i < std::min(said.at.size(), kNamed); ++i) more += "; " + said.at[i];
    if (said.at.size() > kNamed)
      more += "; and " + std::to_string(said.at.size() - kNamed) + " more elsewhere";
  } catch (const std::exception&) {
    more = "; the rendezvous is gone too";
  }
  return {said.timed_out ? KINORA_ERROR_TIMEOUT : KINORA_ERROR_IO,
          collective + ": " + here.what +
              (said.timed_out ? " was not answered within " + std::to_string(timeout.count()) + " ms"
                              : " failed (" + first_line(text) + ")") +
              more};
}

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

// Writes the note before it wakes a thread, since a woken rank may end its process. No lock is held during
// calls of the store.
void RollCall::note(const Place* mine) {
  std::optional<Place> place;
  {
    const std::scoped_lock lock(mutex_);
    if (!std::exchange(called_, true))
      place = mine ? *mine : waits_.empty() ? standing_ : waits_.back().first;
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
