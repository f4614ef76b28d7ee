#pragma once

#include <optional>

#include "clips/clip_maker.hpp"

namespace kinora::video {

// Whether clips of a film of these headers could be made of its own packets, and whether they may when these
// are known.
bool could_copy(const Probe& film, const TranscodeOptions& options);
bool may_copy(const Probe& film, const TranscodeOptions& options);

// A clip of whole groups of pictures as they are, ragged ends from a decoder of the maker's own, and sound as
// it is fed. Nothing: it cannot be made this way; no sound has been taken.
std::optional<Clip> make_copied(const MakerContext& context, ClipWorks& works, const ClipWorks::Task& task);

}  // namespace kinora::video
