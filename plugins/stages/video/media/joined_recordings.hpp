#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

#include "media/ffmpeg.hpp"

namespace kinora::video {

// Gives the packets of a file of one or several joined recordings on one clock, and their marks of damage to the
// pictures that they belong to.
//
// Clock: where a stream's decoding time falls back by a second or more, at a key frame by a tenth, or leaps
// by more than an hour (as FFmpeg shows a fall below the first time of an MPEG-TS), another recording begins.
// Its video begins one frame after the latest picture before it (by decoding times, if some have no other),
// and its sound keeps its distance to that video. All other times are unchanged.
//
// Damage: FFmpeg's MPEG-TS reader marks the pictures in whose packets the continuity counter leaps, one picture
// early, because its parser hands out a picture when the next one begins. Where a recording ends the counter leaps
// too, and nothing is missing: a picture is not marked if the next is a key frame of another recording or comes
// more than a second later.
//
// [owner-thread] Reads ahead only at such places.
class JoinedRecordings {
 public:
  using Demux = std::function<int(AVPacket&)>;  // returns as av_read_frame

  // Streams are borrowed; null: there is none.
  void open(const AVStream* video, const AVStream* audio, bool is_mpegts, Demux demux);
  int read(AVPacket& packet);
  // Call after a seek.
  void forget();
  // Whether another recording has begun: packets are then not found by their times.
  bool is_joined() const { return offsets_.size() > 1; }

 private:
  struct Track {
    const AVStream* stream = nullptr;
    int64_t last_dts = AV_NOPTS_VALUE;  // by the file's clock
    int64_t latest = AV_NOPTS_VALUE;    // largest pts so far, by the file's clock, in this recording
    bool lacks_pts = false;             // a packet of this recording has none
    int64_t duration = 0;               // of the packet before, ticks
    size_t recording = 0;
  };

  int next(AVPacket& packet);
  bool begins(const Track& track, const AVPacket& packet) const;
  void follow(Track& track, const AVPacket& packet) const;
  void place(Track& track, AVPacket& packet);
  void mark(AVPacket& packet);
  int64_t offset_at(const Track& video, const AVPacket& packet) const;
  bool look_for_next_recording();
  const AVPacket* next_picture();
  bool read_ahead();

  Demux demux_;
  Track video_, audio_;
  bool is_mpegts_ = false, is_marked_ = false;
  std::deque<ff::Owned<AVPacket>> ahead_;
  int64_t bytes_ahead_ = 0;
  int ahead_code_ = 0;               // why nothing more can be read ahead
  std::vector<int64_t> offsets_{0};  // of each recording, ticks of the video
};

}  // namespace kinora::video
