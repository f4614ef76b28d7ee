#pragma once

#include <functional>
#include <string>

#include <nlohmann/json.hpp>

#include "clips/clip_plan.hpp"
#include "clips/transcode.hpp"
#include "shots/shot_finder.hpp"

namespace kinora::video {

// Outcome of a planned clip.
enum class Fate {
  made,
  dropped,  // too short, or without a bin
  left_out  // an earlier run has finished it
};

struct NumberedClip {
  int64_t number = 0;  // among all clips of the video
  PlannedClip planned;
  Fate fate = Fate::made;
};

struct CutterOptions {
  ShotsPlan shots;
  PlanOptions plan;
  TranscodeOptions transcode;  // copy and packets are ignored
  // Returns the fate of clip `number` at this length; `too_short` as in plan_clips. A clip that is made stays
  // so as it grows.
  std::function<Fate(int64_t number, double seconds, bool too_short)> fate;
  // Receives every planned clip in order, on the caller's thread; an exception from it ends the call. `clip`
  // is empty unless its fate is `made`.
  std::function<void(const NumberedClip& which, Clip clip)> tell;
};

struct VideoCut {
  nlohmann::json shots;  // as written by a stage shots.*
  std::string damaged;   // Decoder::damaged()
  int64_t frames = 0;
  int64_t decoded_again = 0;  // frames decoded for clips that were made alone
  int64_t made_alone = 0;     // clips
  int64_t most_waiting = 0;   // largest number of waiting bytes, frames and sound
};

// Finds a video's shots and cuts it into clips in one decode. The shots equal those of ShotFinder on all
// frames; the clips equal those of plan_clips and transcode_clips on these shots, byte for byte.
//
// Frames wait until it is certain that no cut excludes them, up to options.transcode.memory bytes together
// with frames that wait for an encoder. A clip whose end is unknown is encoded on the assumption that its
// shot continues. If this was wrong (a shot over max_seconds that is cut into equal parts) or memory was
// short (a fade of minutes), the clip is decoded again, alone.
//
// [owner-thread] MediaError if no frame can be decoded, or for bad options.
VideoCut cut_video(ByteSource& video, const std::string& name, const CutterOptions& options);

}  // namespace kinora::video
