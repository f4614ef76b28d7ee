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
};

// Rewrites a video whose container has no index, or an unreliable one, by copying its packets: MPEG transport
// and program streams, AVI, FLV, DV, RealMedia, NSV, WTV. Writes MP4 if it supports the codecs, else QuickTime, else
// Matroska. Copies the best video and audio stream; the video begins at 0. Empty if the container needs no
// rewriting, and for elementary streams, which have no timestamps.
//
// The new file gives the decoder what the old one gave: the same pictures at the same times. If it could
// not keep something (damaged packets, missing bytes, times that its clock lacks), it throws a MediaError, and the old
// file is used.
//
// stem: the new file's name without extension; its folder must exist. Memory does not grow with the video.
// `each` is called for every packet; the caller receives its exceptions. MediaError also if the video cannot be
// opened or its packets cannot be written. No file remains after an error.
std::optional<Remuxed> remux(ByteSource& video, const std::string& name, const std::filesystem::path& stem,
                             const std::function<void()>& each);

}  // namespace kinora::video
