#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <vector>

#include "clips/clip_writer.hpp"

namespace kinora::video {

// How a clip's pictures come about.
enum class Way {
  fed,    // decoded by the feeder, with everything else
  alone,  // decoded by the clip's own decoder
  copied  // as Way::alone, but whole groups of pictures are copied
};

// What happens to a clip, in the order of its frames: the sound up to a frame (none: no planes), then the
// frame.
struct Feed {
  std::shared_ptr<const Planes> sound;
  ff::Owned<AVFrame> picture;  // of Way::fed
  int64_t index = 0, pts = 0;
  bool damaged = false;
  int64_t bytes = 0;  // weight_of it
};

int64_t weight_of(const Feed& feed);

// Where one feeder leaves frames and sound for the clips, several makers take them, and the results wait to
// be told in order. Bounded in bytes: the feeder waits while what waits here is too much, unless nobody could
// take any of it; then frames that no maker has begun with are let go, and that clip is decoded alone.
//
// [any-thread] One feeder; makers number as said.
class ClipBoard {
 public:
  struct Settings {
    int64_t memory = 0;  // bytes of Feed that may wait
    size_t makers = 1;
    bool alone = false;  // clips may be decoded alone: there is an index, and no two overlap
  };
  // copied: for each range, whether it is to be copied.
  ClipBoard(const std::vector<Range>& ranges, std::vector<bool> copied, const Settings& settings);

  // --- the feeder ---
  // The clip begins.
  void begin(size_t clip);
  // How it is made, or would be made if it began now.
  Way way_of(size_t clip) const;
  // Leaves `feed` for the clip. Waits while there is too much, and calls `idle` meanwhile, without the lock.
  void feed(size_t clip, Feed feed, const std::function<void()>& idle);
  // Its last frame has been left; it ends at end_pts.
  void end(size_t clip, int64_t end_pts);
  // It has no end: the film is over. What a maker says about it gives way to this.
  void break_off(size_t clip, std::string error);
  // The next result in order, if there is one yet; it is gone from here. Rethrows what a maker threw.
  std::optional<Clip> next_result();
  // Waits until the next result is there, or `most` has passed.
  void wait_for_result(std::chrono::milliseconds most);
  // Everybody stops; makers that wait return at once.
  void stop();

  // --- a maker ---
  // The next clip to make, in order; nothing when there is none left.
  std::optional<size_t> claim(Way& way);
  // The next feed of the clip it has claimed; nothing at its end.
  std::optional<Feed> next(size_t clip);
  // After next() gave nothing: the clip's end, or nothing when it was broken off or everybody stops.
  std::optional<int64_t> end_of(size_t clip);
  void done(size_t clip, Clip result);
  void fail(std::exception_ptr error);
  // Whether a maker should leave what it is doing.
  bool stopped() const;

 private:
  struct State {
    Way way = Way::fed;
    std::deque<Feed> feeds;
    bool begun = false, claimed = false, busy = false, ended = false, done = false;
    std::optional<int64_t> end_pts;
    std::string broken;
    Clip result;
  };
  using Lock = std::unique_lock<std::mutex>;

  bool claimable(size_t clip) const;
  bool stuck() const;
  bool let_go();
  bool full(int64_t more) const { return waiting_bytes_ > 0 && waiting_bytes_ + more > settings_.memory; }

  const std::vector<Range>& ranges_;
  const Settings settings_;
  mutable std::mutex mutex_;
  std::condition_variable makers_wake_, feeder_wakes_;
  std::vector<State> clips_;
  size_t next_claim_ = 0, next_told_ = 0, idle_makers_;
  int64_t waiting_bytes_ = 0;
  bool feeder_waits_ = false, stopped_ = false;
  std::exception_ptr failure_;
};

}  // namespace kinora::video
