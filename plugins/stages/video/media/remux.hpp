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
  std::string damage;          // damage of the original that its copy no longer shows; empty: none
};

// Rewrites a video whose container has no index, or an unreliable one, by copying its packets: MPEG transport
// and program streams, AVI, FLV, DV, RealMedia, NSV, WTV. Writes MP4 if it supports the codecs, else Matroska
// (whose clock ticks in milliseconds). Copies the best video and audio stream; pictures, their order and the
// times between them are kept, and the video begins at 0. If the video is cut off or breaks off, the readable
// part is copied and `damage` says so, because the copy itself ends normally. Empty if the container needs no
// rewriting, and for elementary streams, which have no timestamps.
//
// stem: the new file's name without extension; its folder must exist. Memory does not grow with the video.
// `each` is called for every packet; the caller receives its exceptions. MediaError if the video cannot be
// opened or its packets cannot be written; no file remains then.
std::optional<Remuxed> remux(ByteSource& film, const std::string& name, const std::filesystem::path& stem,
                             const std::function<void()>& each);

}  // namespace kinora::video
