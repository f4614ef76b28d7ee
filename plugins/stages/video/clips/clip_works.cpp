#include "clips/clip_works.hpp"

#include <algorithm>
#include <utility>

namespace kinora::video {
namespace {

constexpr int64_t kAhead = 8;  // clips per maker that may be finished ahead of an unreported earlier one

}  // namespace

ClipWorks::Id ClipWorks::add(int64_t number) {
  const Lock lock(mutex_);
  work_[next_id_].number = number;
  return next_id_++;
}

void ClipWorks::begin(Id id) {
  const Lock lock(mutex_);
  work_.at(id).begun = true;
  makers_wake_.notify_all();
}

void ClipWorks::feed(Id id, Feed feed) {
  const Lock lock(mutex_);
  State& s = work_.at(id);
  if (s.gone || s.done) return;  // done before its end means failed
  waiting_ += feed.bytes;
  figures_.peak = std::max(figures_.peak, waiting_ + held_);
  s.feeds.push_back(std::move(feed));
  makers_wake_.notify_all();
}

bool ClipWorks::end(Id id, const Ended& how) {
  const Lock lock(mutex_);
  State& s = work_.at(id);
  if (s.gone) return false;
  s.begun = true;
  s.ended = how;
  makers_wake_.notify_all();
  return true;
}

// The state remains until its maker has finished with it.
void ClipWorks::let_go(Id id) {
  const Lock lock(mutex_);
  const auto at = work_.find(id);
  if (at == work_.end()) return;
  empty(at->second);
  at->second.gone = true;
  if (!at->second.claimed || at->second.done) work_.erase(at);
  wake_all();
}

ClipWorks::Id ClipWorks::add_apart(int64_t number, const Ended& how, ClipSource way) {
  const Lock lock(mutex_);
  State& s = work_[next_id_];
  s.number = number;
  s.way = way;
  s.how = how;
  s.begun = true;
  if (way == ClipSource::alone) {
    s.ended = how;
    ++figures_.made_alone;
  }
  makers_wake_.notify_all();
  return next_id_++;
}

void ClipWorks::set_index(std::shared_ptr<const FrameIndex> index) {
  const Lock lock(mutex_);
  index_ = std::move(index);
}

void ClipWorks::make_room(int64_t bytes, const std::function<void()>& idle) {
  Lock lock(mutex_);
  while (full(bytes)) {
    if (!moves()) {
      if (free_memory() || discard_frames()) continue;
      return;
    }
    lock.unlock();
    idle();
    lock.lock();
    if (full(bytes)) feeder_wakes_.wait_for(lock, std::chrono::milliseconds(50));
  }
}

bool ClipWorks::has_idle_maker() {
  const Lock lock(mutex_);
  Id id = 0;
  return at_work_ < makers_ && claimable(true, id) == nullptr;
}

// Whether waiting data shrinks without the feeder: a maker is working, or can take a clip.
bool ClipWorks::moves() {
  Id id = 0;
  if (at_work_ < makers_ && claimable(true, id)) return true;
  return std::any_of(work_.begin(), work_.end(), [](const auto& entry) {
    const State& s = entry.second;
    return s.claimed && !s.done && (s.busy || !s.feeds.empty() || s.ended || s.gone);
  });
}

// Begins a clip before it is certain to exist.
bool ClipWorks::free_memory() {
  Id id = 0;
  if (at_work_ == makers_) return false;
  State* s = claimable(false, id);
  if (!s || s->feeds.empty()) return false;
  s->begun = true;
  makers_wake_.notify_all();
  return true;
}

// Discards the frames of the last clip that has frames but no maker.
bool ClipWorks::discard_frames() {
  State* last = nullptr;
  for (auto& [id, s] : work_)
    if (s.way == ClipSource::fed && !s.claimed && !s.gone && !s.feeds.empty() &&
        (!last || s.number > last->number))
      last = &s;
  if (!last) return false;
  empty(*last);
  last->gone = true;
  return true;
}

void ClipWorks::empty(State& s) {
  for (const Feed& feed : s.feeds) waiting_ -= feed.bytes;
  s.feeds.clear();
}

void ClipWorks::hold(int64_t bytes) {
  const Lock lock(mutex_);
  held_ += bytes;
  figures_.peak = std::max(figures_.peak, waiting_ + held_);
}

void ClipWorks::turn(int64_t number) {
  const Lock lock(mutex_);
  turn_ = number;
  makers_wake_.notify_all();
}

std::optional<Clip> ClipWorks::result(Id id) {
  const Lock lock(mutex_);
  State& s = work_.at(id);
  if (!s.done) return std::nullopt;
  const auto error = s.error;
  Clip clip = std::move(s.result);
  work_.erase(id);
  if (error) std::rethrow_exception(error);
  return clip;
}

void ClipWorks::wait_for_result(Id id, std::chrono::milliseconds most) {
  Lock lock(mutex_);
  feeder_wakes_.wait_for(lock, most, [&] { return work_.at(id).done; });
}

void ClipWorks::wake_all() {
  makers_wake_.notify_all();
  feeder_wakes_.notify_one();
}

void ClipWorks::stop() {
  const Lock lock(mutex_);
  stopped_ = true;
  wake_all();
}

ClipWorks::Figures ClipWorks::figures() const {
  const Lock lock(mutex_);
  return figures_;
}

// Returns the unclaimed clip with the lowest number, among those that have begun or those that have not.
ClipWorks::State* ClipWorks::claimable(bool begun, Id& id) {
  State* first = nullptr;
  for (auto& [at, s] : work_) {
    if (s.claimed || s.gone || s.begun != begun) continue;
    if (s.number >= turn_ + kAhead * static_cast<int64_t>(makers_)) continue;
    if (first && first->number < s.number) continue;
    first = &s;
    id = at;
  }
  return first;
}

std::optional<ClipWorks::Task> ClipWorks::claim() {
  Lock lock(mutex_);
  Task task;
  State* s = nullptr;
  makers_wake_.wait(lock, [&] { return stopped_ || (s = claimable(true, task.id)) != nullptr; });
  if (stopped_) return std::nullopt;
  s->claimed = s->busy = true;
  ++at_work_;
  task.way = s->way;
  task.how = s->how;
  task.index = index_;
  return task;
}

std::optional<Feed> ClipWorks::next(Id id) {
  Lock lock(mutex_);
  State& s = work_.at(id);
  s.busy = false;
  if (s.feeds.empty() && !s.ended)
    feeder_wakes_.notify_one();  // the feeder may be waiting for this clip only
  makers_wake_.wait(lock, [&] { return stopped_ || s.gone || s.ended || !s.feeds.empty(); });
  s.busy = true;
  if (stopped_ || s.gone || s.feeds.empty()) return std::nullopt;
  Feed feed = std::move(s.feeds.front());
  s.feeds.pop_front();
  waiting_ -= feed.bytes;
  feeder_wakes_.notify_one();
  return feed;
}

std::optional<ClipWorks::Ended> ClipWorks::end_of(Id id) const {
  const Lock lock(mutex_);
  const State& s = work_.at(id);
  return stopped_ || s.gone ? std::nullopt : s.ended;
}

bool ClipWorks::gone(Id id) const {
  const Lock lock(mutex_);
  return stopped_ || work_.at(id).gone;
}

void ClipWorks::done(Id id, Clip result, std::exception_ptr error) {
  const Lock lock(mutex_);
  State& s = work_.at(id);
  empty(s);
  s.busy = false;
  s.done = true;
  s.result = std::move(result);
  s.error = std::move(error);
  if (s.gone) work_.erase(id);
  --at_work_;
  wake_all();
}

void ClipWorks::count_decoded(int64_t frames) {
  const Lock lock(mutex_);
  figures_.decoded_alone += frames;
}

}  // namespace kinora::video
