// The studio over HTTP, on loopback only.
#pragma once
#include <functional>
#include <string>

#include "apps/studio/studio.hpp"
#include "core/runtime/runtime.hpp"

namespace kinora::studio {

struct ServeOptions {
  int port = 0;                                           // 0: a free one
  std::function<void(const std::string& address)> ready;  // called once, when requests are answered
  std::function<bool()> stopped;                          // asked often; true ends the server
};

// Until stopped() says so. Throws Error KINORA_IO if the port is taken.
void serve(core::Runtime&, Studio&, const ServeOptions&);

}  // namespace kinora::studio
