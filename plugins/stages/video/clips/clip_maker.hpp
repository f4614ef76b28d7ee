// Makes clips from what ClipWorks delivers: frames that are fed or decoded here, or copied packets.
#pragma once
#include <string>

#include "clips/clip_works.hpp"
#include "media/encoder.hpp"

namespace kinora::video {

// State shared by all makers of one video's clips, which borrow it.
struct MakerContext {
  ByteSource& video;
  const std::string& name;
  const TranscodeOptions& options;
  const Probe& probe;
  AudioFormat sound;  // rate 0: none
};

// Returns, for example, "a.mp4: clip [100, 180)".
std::string clip_title(const std::string& name, const Range& range);

// Takes clips from the works and makes them until stop() is called. Runs in its own thread.
void make_clips(const MakerContext& context, ClipWorks& works);

// could_copy: whether the headers allow making clips from the video's own packets. may_copy: whether its
// packet index allows it too.
bool could_copy(const Probe& probe, const TranscodeOptions& options);
bool may_copy(const Probe& probe, const TranscodeOptions& options);

}  // namespace kinora::video
