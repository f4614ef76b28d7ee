// Turns TransNet V2's two probabilities a frame into cuts and gradual transitions, as they come.
//
// A change is a stretch of frames in which one of the probabilities is above 0.2. It is a cut if `change`, the
// probability that the shot ends with the frame, rises above the threshold in it, or if `part`, the
// probability that the frame is part of a change, does for half a second of a usual video (12 frames). One
// stretch is one cut, also a fade to black and back: the frame after the highest `change`. From 4 frames above
// the threshold on, the frames between the first and the last of them are a transition: they show both shots
// or black, and belong to neither.
//
// Nothing is cut at a flash (flashes.hpp) within a shot. A flash in which the shot changes is one cut, at the frame
// that shows another shot first, also where the probability is between 0.2 and the threshold.
#pragma once
#include <cstdint>
#include <vector>

#include "media/decoder.hpp"
#include "shots/flashes.hpp"

namespace kinora::video {

// [owner-thread]
class NetworkCuts {
 public:
  explicit NetworkCuts(double threshold) : threshold_(threshold) {}

  // The next frame's picture, [27, 48, 3]. Pictures come before the probabilities of the frames 5 before them.
  void see(const uint8_t* picture) { flashes_.see(picture); }
  void push(float change, float part);

  // First frames of shots, ascending, and the transitions that hold some of them.
  const std::vector<int64_t>& cuts() const { return cuts_; }
  const std::vector<Range>& transitions() const { return transitions_; }
  // The frame before which all cuts and transitions are known.
  int64_t settled() const { return open_ ? now_.first : frames_; }

 private:
  struct Change {
    int64_t first = 0, peak = 0;  // its first frame, that of the highest `change`
    float highest = -1;
    Range gradual{-1, -1};  // first and last frame of `part` above the threshold, and one
    int64_t frames = 0;     // of them
  };
  void close();

  double threshold_;
  int64_t frames_ = 0;  // with probabilities
  bool open_ = false;
  Change now_;
  Flashes flashes_;
  std::vector<int64_t> cuts_;
  std::vector<Range> transitions_;
};

}  // namespace kinora::video
