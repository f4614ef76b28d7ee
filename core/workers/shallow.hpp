// Whether a message's head can be read: the parser of CBOR calls itself as deep as the head is nested, and a
// stack has an end. No head of ours is deeper than kDeepestHead.
#pragma once
#include <cstdint>

namespace kinora::core {

constexpr int kDeepestHead = 16;

// False for what is no CBOR too.
bool is_shallow_cbor(const uint8_t* begin, const uint8_t* end);

}  // namespace kinora::core
