#pragma once

#include "clips/clip_board.hpp"
#include "media/packet_index.hpp"

namespace kinora::video {

// What all makers of one film's clips share. Borrowed by them.
struct MakerContext {
  ByteSource& film;
  const std::string& name;
  const TranscodeOptions& options;
  const Probe& probe;
  AudioFormat sound;  // rate 0: none
  const std::vector<Range>& ranges;
};

// "film.mp4: clip [100, 180)".
std::string clip_title(const std::string& name, const Range& range);
// Why there is no clip, to follow its title.
std::string damaged_from(int64_t frame);
extern const char* const kIncredible;

// Whether clips of a film of these headers could be made of its own packets, and whether they may when these are known.
bool could_copy(const Probe& film, const TranscodeOptions& options);
bool may_copy(const Probe& film, const TranscodeOptions& options);

// Takes clips from the board and makes them, until there are none left. Runs in a thread of its own.
void make_clips(const MakerContext& context, ClipBoard& board);

}  // namespace kinora::video
