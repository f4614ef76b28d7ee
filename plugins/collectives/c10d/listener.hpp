// Whether somebody listens at an address, asked before c10d's store is: it would wait there deaf to Ctrl-C,
// and fail with pages.
#pragma once
#include <cstdint>
#include <string>

#include "plugins/collectives/c10d/patience.hpp"

namespace kinora {

// Returns once host:port takes connections. Throws Error(KINORA_TIMEOUT) that says what is wrong there;
// expected: who must listen, "rank 0".
void wait_for_listener(const std::string& collective, const std::string& host, uint16_t port,
                       const std::string& expected, Patience&);

}  // namespace kinora
