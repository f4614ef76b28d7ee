#pragma once

#include <string>

#include "clips/clip_works.hpp"
#include "media/encoder.hpp"

namespace kinora::video {

// State shared by all makers of one video's clips, which borrow it.
struct MakerContext {
  ByteSource& film;
  const std::string& name;
  const TranscodeOptions& options;
  const Probe& probe;
  AudioFormat sound;  // rate 0: none
};

// Returns, for example, "a.mp4: clip [100, 180)".
std::string clip_title(const std::string& name, const Range& range);

// Takes clips from the works and makes them until stop() is called. Runs in its own thread.
void make_clips(const MakerContext& context, ClipWorks& works);

}  // namespace kinora::video
