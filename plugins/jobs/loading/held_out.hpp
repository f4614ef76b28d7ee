// Which clips are held out of training: a function of their keys, so that adding clips moves none of the others.
#pragma once
#include <cstdint>
#include <string>

#include "core/base/digest.hpp"

namespace kinora::core {

// The first 52 bits of the key's SHA-256.
inline uint64_t hash_of(const std::string& key) {
  return std::stoull(sha256(key).substr(0, 13), nullptr, 16);
}

// In [0, 1): a clip is held out if this is below the share that is.
inline double hash_share(const std::string& key) { return static_cast<double>(hash_of(key)) * 0x1p-52; }

}  // namespace kinora::core
