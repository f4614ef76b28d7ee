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

// Source of a clip's pictures and sound.
enum class ClipSource {
  fed,      // the feeder supplies both, frame by frame
  decoded,  // the maker decodes the pictures, the feeder supplies the sound
  copied,   // as decoded, but whole groups of pictures are copied packets
  alone     // the maker decodes both
};

// Work queue between one feeder, which supplies frames and sound for a video's clips, and several makers.
// Results wait here until they are due. A clip's number is its position among all clips of the video; each
// piece of work has an id.
//
// A fed clip is added when its first frame arrives; its end may still be unknown. Its frames wait until it
// has begun, then a maker takes it. It either ends or is let go: then its work is discarded, and if it turns
// out to be a clip after all, a maker makes it alone. A clip whose range is known can be given to a maker
// from the start.
//
// make_room() limits the bytes that wait here and that the feeder holds.
//
// [any-thread] One feeder and `makers` makers.
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
  // Adds clip `number` of a known range. Unless it is made alone, feed its sound and then end it.
  Id add_apart(int64_t number, const Ended& how, ClipSource way);
  // The clip is likely enough to exist that makers may take it.
  void begin(Id id);
  void feed(Id id, Feed feed);
  // Sets the clip's range. False if its frames were discarded because memory was short; then let it go and
  // add it alone.
  bool end(Id id, const Ended& how);
  // Call if the clip does not exist or its frames are gone.
  void let_go(Id id);
  // Index of the video's frames so far, by which makers seek.
  void set_index(std::shared_ptr<const FrameIndex> index);
  // Waits until `bytes` more fit in addition to waiting and held bytes, or nothing waits. Calls `idle`
  // meanwhile, without the lock.
  void make_room(int64_t bytes, const std::function<void()>& idle);
  void hold(int64_t bytes);  // the feeder holds this many more bytes; negative: fewer
  // Whether a maker is idle without work.
  bool has_idle_maker();

  // Every clip before this number has been reported. Limits the number of waiting results.
  void turn(int64_t number);
  // Removes and returns the result of an ended clip, if it is finished. Rethrows its maker's exception.
  std::optional<Clip> result(Id id);
  void wait_for_result(Id id, std::chrono::milliseconds most);
  // Stops the feeder and all makers; waiting makers return at once.
  void stop();

  struct Figures {
    int64_t peak = 0;           // most bytes waiting and held at the same time
    int64_t decoded_alone = 0;  // frames
    int64_t made_alone = 0;     // clips
  };
  Figures figures() const;

  // --- a maker ---
  struct Task {
    Id id = 0;
    ClipSource way = ClipSource::fed;
    Ended how;  // not for fed clips
    std::shared_ptr<const FrameIndex> index;
  };
  // Waits for a task; empty after stop().
  std::optional<Task> claim();
  // Returns the clip's next feed; empty at its end.
  std::optional<Feed> next(Id id);
  // Call after next() returned empty. Empty if the clip was let go or after stop().
  std::optional<Ended> end_of(Id id) const;
  // Whether the maker should abandon the clip.
  bool gone(Id id) const;
  void done(Id id, Clip result, std::exception_ptr error);
  void count_decoded(int64_t frames);

 private:
  struct State {
    int64_t number = 0;
    ClipSource way = ClipSource::fed;
    bool begun = false, claimed = false, busy = false, done = false;
    bool gone = false;  // let go, or its frames discarded
    std::deque<Feed> feeds;
    Ended how;  // for clips that are not fed
    std::optional<Ended> ended;
    Clip result;
    std::exception_ptr error;
  };
  using Lock = std::unique_lock<std::mutex>;

  State* claimable(bool begun, Id& id);
  bool full(int64_t more) const { return !stopped_ && waiting_ > 0 && waiting_ + held_ + more > memory_; }
  bool moves();
  bool free_memory();
  bool discard_frames();
  void empty(State& state);
  void wake_all();

  const int64_t memory_;
  const size_t makers_;
  mutable std::mutex mutex_;
  std::condition_variable makers_wake_, feeder_wakes_;
  std::map<Id, State> work_;
  std::shared_ptr<const FrameIndex> index_;
  Id next_id_ = 0;
  size_t at_work_ = 0;  // number of makers at work
  int64_t waiting_ = 0, held_ = 0, turn_ = 0;
  Figures figures_;
  bool stopped_ = false;
};

}  // namespace kinora::video
