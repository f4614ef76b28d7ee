#pragma once

#include "clips/clip_works.hpp"

namespace kinora::video {

// What all makers of one film's clips share. Borrowed by them.
struct GrowingContext {
  ByteSource& film;
  const std::string& name;
  const TranscodeOptions& options;
  const Probe& probe;
  AudioFormat sound;  // rate 0: none
};

// Takes clips from the works and makes them, until everybody stops. Runs in a thread of its own.
void make_growing(const GrowingContext& context, ClipWorks& works);

}  // namespace kinora::video
