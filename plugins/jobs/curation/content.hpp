// The identity of a film's bytes.
#pragma once
#include <string>

namespace kinora::core {

// SHA-256 of a file of any storage, in 64 hexadecimal digits, read piece by piece. Throws kinora::Error;
// KINORA_CANCELLED if the run is cancelled meanwhile.
std::string content_hash(const std::string& url);

}  // namespace kinora::core
