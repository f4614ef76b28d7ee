#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "media/byte_source.hpp"

namespace kinora::video {

struct Remuxed {
  std::string from, to;        // containers, as FFmpeg calls them
  std::filesystem::path file;  // the new one
  std::string damage;          // what the film lacks and its copy does not show any more; empty: nothing
};

// Rewrites a film whose container has no index, or an unreliable one, by copying its packets: MPEG transport and program
// streams, AVI, FLV, DV, RealMedia, NSV, WTV. Into MP4 where that can hold the codecs, else into Matroska (whose clock ticks in
// milliseconds). Best video and sound go along; pictures, their order and the distances between them stay; the film begins at 0.
// Of a film that is cut off or breaks off, what could be read is copied: `damage` says so, for its copy ends like any other.
// Nothing if the container needs no rewriting; elementary streams, which have no timestamps to go by, are left as they are too.
//
// stem: the new file's name without its ending; its folder must exist. Memory does not grow with the film. `each` is called for
// every packet and may throw, which reaches the caller. MediaError when the film cannot be opened or its packets cannot be
// written; no file is left then.
std::optional<Remuxed> remux(ByteSource& film, const std::string& name, const std::filesystem::path& stem,
                             const std::function<void()>& each);

}  // namespace kinora::video
