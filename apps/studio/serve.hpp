// Serves the studio over HTTP, on loopback only, to those who know the address that the command prints.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "apps/studio/studio.hpp"
#include "apps/web/guard.hpp"
#include "core/runtime/runtime.hpp"

namespace kinora::studio {

// The studio as it is served: its address is known from the beginning, and requests wait until run().
class Serving {
 public:
  // port 0: any free port. Throws Error KINORA_ERROR_INVALID if it cannot be had.
  explicit Serving(int port);

  const std::string& address() const { return address_; }
  // Once: serves until stopped() is true, which is polled.
  void run(core::Runtime&, Studio&, const std::function<bool()>& stopped);

 private:
  std::unique_ptr<web::Server> http_;
  web::Guard guard_;
  std::string address_;
};

}  // namespace kinora::studio
