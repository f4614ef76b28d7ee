#pragma once

#include <optional>

#include "clips/clip_maker.hpp"

namespace kinora::video {

// could_copy: whether the headers allow making clips from the video's own packets. may_copy: whether its packet index
// allows it too.
bool could_copy(const Probe& film, const TranscodeOptions& options);
bool may_copy(const Probe& film, const TranscodeOptions& options);

// Makes a clip from copied whole groups of pictures, ragged ends that the maker decodes, and the fed sound. Empty if it
// cannot be made this way; no sound has been taken then.
std::optional<Clip> make_copied(const MakerContext& context, ClipWorks& works, const ClipWorks::Task& task);

}  // namespace kinora::video
