#pragma once

#include <string>

#include "clips/clip_works.hpp"
#include "media/encoder.hpp"

namespace kinora::video {

// What all makers of one film's clips share. Borrowed by them.
struct MakerContext {
  ByteSource& film;
  const std::string& name;
  const TranscodeOptions& options;
  const Probe& probe;
  AudioFormat sound;  // rate 0: none
};

// "film.mp4: clip [100, 180)".
std::string clip_title(const std::string& name, const Range& range);

// Takes clips from the works and makes them, until everybody stops. Runs in a thread of its own.
void make_clips(const MakerContext& context, ClipWorks& works);

}  // namespace kinora::video
