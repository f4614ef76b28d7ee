// Checks whether a process listens at an address before c10d's store connects: the store would wait without reacting to Ctrl-C,
// and fail with pages of text.
#pragma once
#include <cstdint>
#include <string>

#include "plugins/collectives/c10d/patience.hpp"

namespace kinora {

// Returns once host:port accepts connections. Throws Error(KINORA_TIMEOUT) with the reason;
// expected: the process that must listen, "rank 0".
void wait_for_listener(const std::string& collective, const std::string& host, uint16_t port,
                       const std::string& expected, Patience&);

}  // namespace kinora
