#include "clips/clip_board.hpp"

#include <utility>

namespace kinora::video {

int64_t weight_of(const Feed& feed) {
  int64_t bytes = 0;
  if (feed.sound)
    for (const auto& plane : *feed.sound) bytes += static_cast<int64_t>(plane.size() * sizeof(float));
  for (int i = 0; feed.picture && i < AV_NUM_DATA_POINTERS; ++i)
    if (feed.picture->buf[i] != nullptr) bytes += static_cast<int64_t>(feed.picture->buf[i]->size);
  return bytes;
}

namespace {

constexpr size_t kAhead =
    8;  // results a maker that may wait for an earlier clip: bounds what waits to be told

void without_picture(Feed& feed) {
  feed.picture.reset();
  feed.bytes = weight_of(feed);
}

}  // namespace

ClipBoard::ClipBoard(const std::vector<Range>& ranges, std::vector<bool> copied, const Settings& settings)
    : ranges_(ranges), settings_(settings), clips_(ranges.size()), idle_makers_(settings.makers) {
  for (size_t i = 0; i < copied.size(); ++i)
    if (copied[i]) clips_[i].way = Way::copied;
}

// Clips are claimed in order. One that is fed can be once it has begun, or, while the feeder waits for room,
// before: then it is decoded alone.
bool ClipBoard::claimable(size_t clip) const {
  if (clip >= clips_.size() || clip >= next_told_ + kAhead * settings_.makers) return false;
  const State& c = clips_[clip];
  return c.begun || c.way != Way::fed || (settings_.alone && feeder_waits_);
}

std::optional<size_t> ClipBoard::claim(Way& way) {
  Lock lock(mutex_);
  makers_wake_.wait(lock, [&] { return stopped_ || next_claim_ == clips_.size() || claimable(next_claim_); });
  if (stopped_ || next_claim_ == clips_.size()) return std::nullopt;
  const size_t clip = next_claim_++;
  State& c = clips_[clip];
  if (!c.begun && c.way == Way::fed) c.way = Way::alone;
  c.claimed = true;
  c.busy = true;
  --idle_makers_;
  way = c.way;
  if (next_claim_ == clips_.size()) makers_wake_.notify_all();
  return clip;
}

std::optional<Feed> ClipBoard::next(size_t clip) {
  Lock lock(mutex_);
  State& c = clips_[clip];
  c.busy = false;
  if (c.feeds.empty() && !c.ended) feeder_wakes_.notify_one();  // it may be waiting for this one alone
  makers_wake_.wait(lock, [&] { return stopped_ || !c.feeds.empty() || c.ended; });
  c.busy = true;
  if (stopped_ || c.feeds.empty()) return std::nullopt;
  Feed feed = std::move(c.feeds.front());
  c.feeds.pop_front();
  waiting_bytes_ -= feed.bytes;
  feeder_wakes_.notify_one();
  return feed;
}

std::optional<int64_t> ClipBoard::end_of(size_t clip) {
  const Lock lock(mutex_);
  return stopped_ ? std::nullopt : clips_[clip].end_pts;
}

void ClipBoard::done(size_t clip, Clip result) {
  const Lock lock(mutex_);
  State& c = clips_[clip];
  for (const Feed& feed : c.feeds) waiting_bytes_ -= feed.bytes;
  c.feeds.clear();
  c.busy = false;
  c.done = true;
  c.result = std::move(result);
  ++idle_makers_;
  feeder_wakes_.notify_one();
  makers_wake_.notify_all();
}

void ClipBoard::fail(std::exception_ptr error) {
  const Lock lock(mutex_);
  if (!failure_) failure_ = std::move(error);
  feeder_wakes_.notify_one();
}

void ClipBoard::begin(size_t clip) {
  const Lock lock(mutex_);
  clips_[clip].begun = true;
  makers_wake_.notify_all();
}

bool ClipBoard::stopped() const {
  const Lock lock(mutex_);
  return stopped_;
}

Way ClipBoard::way_of(size_t clip) const {
  const Lock lock(mutex_);
  return clips_[clip].way;
}

// Nobody takes anything, however long one waits: every claimed clip wants what has not been left yet, and no
// maker is free for another.
bool ClipBoard::stuck() const {
  if (idle_makers_ > 0 && next_claim_ < clips_.size() && claimable(next_claim_)) return false;
  for (size_t i = next_told_; i < next_claim_; ++i) {
    const State& c = clips_[i];
    if (c.claimed && !c.done && (c.busy || !c.feeds.empty() || c.ended)) return false;
  }
  return true;
}

// Drops the frames of the last clip that has some and no maker.
bool ClipBoard::let_go() {
  for (size_t i = clips_.size(); i-- > next_claim_;) {
    State& c = clips_[i];
    if (!c.begun || c.way != Way::fed) continue;
    c.way = Way::alone;
    for (Feed& feed : c.feeds) {
      waiting_bytes_ -= feed.bytes;
      without_picture(feed);
      waiting_bytes_ += feed.bytes;
    }
    return true;
  }
  return false;
}

void ClipBoard::feed(size_t clip, Feed feed, const std::function<void()>& idle) {
  Lock lock(mutex_);
  State& c = clips_[clip];
  while (!stopped_ && !failure_) {
    if (c.way != Way::fed) without_picture(feed);
    if (!full(feed.bytes)) break;
    if (stuck()) {
      if (let_go()) continue;
      break;
    }
    feeder_waits_ = true;
    makers_wake_.notify_all();
    feeder_wakes_.wait_for(lock, std::chrono::milliseconds(50));
    feeder_waits_ = false;
    lock.unlock();
    idle();
    lock.lock();
  }
  waiting_bytes_ += feed.bytes;
  c.feeds.push_back(std::move(feed));
  makers_wake_.notify_all();
}

void ClipBoard::end(size_t clip, int64_t end_pts) {
  const Lock lock(mutex_);
  clips_[clip].ended = true;
  clips_[clip].end_pts = end_pts;
  makers_wake_.notify_all();
}

void ClipBoard::break_off(size_t clip, std::string error) {
  const Lock lock(mutex_);
  State& c = clips_[clip];
  c.begun = c.ended = true;
  c.broken = std::move(error);
  makers_wake_.notify_all();
}

std::optional<Clip> ClipBoard::next_result() {
  const Lock lock(mutex_);
  if (failure_) std::rethrow_exception(failure_);
  if (next_told_ == clips_.size() || !clips_[next_told_].done) return std::nullopt;
  State& c = clips_[next_told_++];
  Clip result = std::move(c.result);
  if (!c.broken.empty()) {
    result = {};
    result.error = c.broken;
  }
  makers_wake_.notify_all();
  return result;
}

void ClipBoard::wait_for_result(std::chrono::milliseconds most) {
  Lock lock(mutex_);
  feeder_wakes_.wait_for(lock, most,
                         [&] { return failure_ || (next_told_ < clips_.size() && clips_[next_told_].done); });
}

void ClipBoard::stop() {
  const Lock lock(mutex_);
  stopped_ = true;
  makers_wake_.notify_all();
}

}  // namespace kinora::video
