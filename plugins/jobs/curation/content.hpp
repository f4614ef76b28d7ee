// The identity of a video's bytes.
#pragma once
#include <string>

namespace kinora::core {

// SHA-256 of a file on any storage, as 64 hexadecimal digits, read piece by piece. Throws kinora::Error;
// KINORA_CANCELLED if the run is cancelled meanwhile.
std::string content_hash(const std::string& url);

}  // namespace kinora::core
