#pragma once

#include <cstdint>

#include "media/byte_source.hpp"

namespace kinora::video {

// How many bytes the container itself says the file has: the end of the outermost boxes of MP4/MOV (ISO/IEC
// 14496-12, 4.2), of the Matroska Segment (RFC 8794, 4-6), of the RIFF chunks of AVI. Other containers, and
// sizes left open by a live recorder, give 0. A file shorter than this was cut off: demuxers end such a film
// without an error.
int64_t declared_size(ByteSource& source);

}  // namespace kinora::video
