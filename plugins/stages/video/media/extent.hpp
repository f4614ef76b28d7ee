#pragma once

#include <cstdint>

#include "media/byte_source.hpp"

namespace kinora::video {

// File size in bytes that the container declares: the end of the outermost boxes of MP4/MOV (ISO/IEC 14496-12, 4.2), of
// the Matroska Segment (RFC 8794, 4-6), or of the RIFF chunks of AVI. 0 for other containers and for sizes left open by a
// live recorder. A shorter file was cut off; demuxers end such a file without an error.
int64_t declared_size(ByteSource& source);

}  // namespace kinora::video
