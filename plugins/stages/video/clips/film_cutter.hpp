#pragma once

#include <functional>
#include <string>

#include <nlohmann/json.hpp>

#include "clips/clip_plan.hpp"
#include "shots/shot_finder.hpp"
#include "clips/transcode.hpp"

namespace kinora::video {

// What becomes of a clip that is planned.
enum class Fate {
  made,
  dropped,  // too short, or of no bin
  left_out  // an earlier run has ended it
};

struct FilmClip {
  int64_t number = 0;  // among all clips of the film
  PlannedClip planned;
  Fate fate = Fate::made;
};

struct FilmOptions {
  ShotsPlan shots;
  PlanOptions plan;
  TranscodeOptions transcode;  // copy and packets are no matter here
  // Of clip `number`, if it lasts so long; `too_short` as plan_clips says. One that is made stays so when it grows.
  std::function<Fate(int64_t number, double seconds, bool too_short)> fate;
  // Every planned clip in the order of their numbers, by the caller's thread; what it throws ends everything. `clip` is
  // empty unless its fate was to be made.
  std::function<void(const FilmClip& which, Clip clip)> tell;
};

struct FilmCut {
  nlohmann::json shots;  // as a stage shots.* says
  std::string damaged;   // Decoder::damaged()
  int64_t frames = 0;
  int64_t decoded_again = 0;   // frames, for clips that were made alone
  int64_t made_alone = 0;      // clips
  int64_t most_waiting = 0;    // bytes of frames and sound
};

// Finds a film's shots and cuts it into clips from one decode: the shots are those of ShotFinder on all frames, the clips
// those of plan_clips and transcode_clips on these shots, byte for byte.
//
// Frames wait until it is settled that no cut takes them away, up to options.transcode.memory bytes with those that wait
// for an encoder. Where a clip's end is not known yet it is encoded on the likely course of things: its shot goes on. A
// clip is decoded again, alone, where that was wrong (a shot over max_seconds that is cut into equal parts) or memory was
// short (a fade of minutes).
//
// [owner-thread] MediaError: no frame can be decoded, bad options.
FilmCut cut_film(ByteSource& film, const std::string& name, const FilmOptions& options);

}  // namespace kinora::video
