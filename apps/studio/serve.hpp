// Serves the studio over HTTP, on loopback only, to those who know the address that the command prints.
#pragma once
#include <functional>
#include <string>

#include "apps/studio/studio.hpp"
#include "core/runtime/runtime.hpp"

namespace kinora::studio {

struct ServeOptions {
  int port = 0;                                           // 0: any free port
  std::function<void(const std::string& address)> ready;  // called once, when the server is ready
  std::function<bool()> stopped;                          // polled; true stops the server
};

// Runs until stopped() returns true. Throws Error KINORA_ERROR_INVALID if the port cannot be had.
void serve(core::Runtime&, Studio&, const ServeOptions&);

}  // namespace kinora::studio
