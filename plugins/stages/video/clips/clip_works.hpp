#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "clips/feed.hpp"
#include "clips/transcode.hpp"

namespace kinora::video {

// Where a clip's pictures and sound come from.
enum class Way {
  fed,      // the feeder gives both, frame after frame
  decoded,  // the maker decodes the pictures, the feeder gives the sound
  copied,   // as decoded, but whole groups of pictures are the film's own packets
  alone     // the maker decodes both
};

// Where one feeder leaves frames and sound for the clips of a film, several makers take them, and the results
// wait for their turn. A clip's number is its place among all clips of the film; a piece of work has an id.
//
// A fed clip is added when its first frame comes; its end may not be known yet. Makers take it once it has
// begun; until then its frames wait. It ends, or it is let go: what was done for it is thrown away, and if it
// turns out to be a clip all the same, a maker makes it alone. A clip whose range is known can be left to a
// maker from the start.
//
// Bounded in bytes by make_room(): what waits here and what the feeder holds.
//
// [any-thread] One feeder; makers number as said.
class ClipWorks {
 public:
  using Id = size_t;
  struct Ended {
    Range range;
    int64_t pts = 0;
  };

  ClipWorks(int64_t memory, size_t makers) : memory_(memory), makers_(makers) {}

  // --- the feeder ---
  Id add(int64_t number);
  // Clip `number` is this range. Unless it is made alone, it is to be fed its sound, and then ended.
  Id add_apart(int64_t number, const Ended& how, Way way);
  // It is likely enough to come to be: makers may take it.
  void begin(Id id);
  void feed(Id id, Feed feed);
  // It is this range. False: its frames were thrown away for want of memory; let it go, and add it alone.
  bool end(Id id, const Ended& how);
  // There is no such clip, or its frames are gone.
  void let_go(Id id);
  // The film's frames so far: leads makers to what they decode.
  void set_index(std::shared_ptr<const FrameIndex> index);
  // Waits until `bytes` more fit beside what waits here and what the feeder holds, or nothing waits. `idle`
  // is called meanwhile, without the lock.
  void make_room(int64_t bytes, const std::function<void()>& idle);
  void hold(int64_t bytes);  // the feeder holds so many more, or fewer
  // Whether a maker is free and finds nothing to do.
  bool hungry();

  // Every clip before this number has been told. Bounds how many results wait.
  void turn(int64_t number);
  // The result of a clip that has ended, if it is there yet; it is gone from here. Rethrows what its maker
  // threw.
  std::optional<Clip> result(Id id);
  void wait_for_result(Id id, std::chrono::milliseconds most);
  // Everybody stops; makers that wait return at once.
  void stop();

  struct Figures {
    int64_t peak = 0;           // most bytes that waited here and were held at once
    int64_t decoded_alone = 0;  // frames
    int64_t made_alone = 0;     // clips
  };
  Figures figures() const;

  // --- a maker ---
  struct Task {
    Id id = 0;
    Way way = Way::fed;
    Ended how;  // unless it is fed
    std::shared_ptr<const FrameIndex> index;
  };
  // Waits for one; nothing when everybody stops.
  std::optional<Task> claim();
  // The next feed of the clip; nothing at its end.
  std::optional<Feed> next(Id id);
  // After next() gave nothing: nothing when it was let go or everybody stops.
  std::optional<Ended> end_of(Id id) const;
  // Whether to leave what one is doing for it.
  bool gone(Id id) const;
  void done(Id id, Clip result, std::exception_ptr error);
  void count_decoded(int64_t frames);

 private:
  struct State {
    int64_t number = 0;
    Way way = Way::fed;
    bool begun = false, claimed = false, busy = false, done = false;
    bool gone = false;  // let go, or its frames thrown away
    std::deque<Feed> feeds;
    Ended how;  // of one that is not fed
    std::optional<Ended> ended;
    Clip result;
    std::exception_ptr error;
  };
  using Lock = std::unique_lock<std::mutex>;

  State* claimable(bool begun, Id& id);
  bool full(int64_t more) const { return !stopped_ && waiting_ > 0 && waiting_ + held_ + more > memory_; }
  bool moves();
  bool press();
  bool lose();
  void empty(State& state);
  void wake_all();

  const int64_t memory_;
  const size_t makers_;
  mutable std::mutex mutex_;
  std::condition_variable makers_wake_, feeder_wakes_;
  std::map<Id, State> work_;
  std::shared_ptr<const FrameIndex> index_;
  Id next_id_ = 0;
  size_t at_work_ = 0;  // makers
  int64_t waiting_ = 0, held_ = 0, turn_ = 0;
  Figures figures_;
  bool stopped_ = false;
};

}  // namespace kinora::video
