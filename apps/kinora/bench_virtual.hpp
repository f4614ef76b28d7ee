// The baseline of a plugin call: the same function behind a virtual call, in a file of its own so that the compiler
// cannot see through it.
#pragma once
#include <memory>

#include "kinora/abi/stage.h"

namespace kinora {

struct Virtual {
  virtual ~Virtual() = default;
  virtual int32_t resources(kinora_resources* out) = 0;
};
std::unique_ptr<Virtual> make_virtual();

}  // namespace kinora
