// Checks that a message's head can be parsed safely: the CBOR parser recurses once per nesting level, and the
// stack is limited. None of our heads is nested deeper than kDeepestHead.
#pragma once
#include <cstdint>

namespace kinora::core {

constexpr int kDeepestHead = 16;

// Also false for invalid CBOR.
bool is_shallow_cbor(const uint8_t* begin, const uint8_t* end);

}  // namespace kinora::core
