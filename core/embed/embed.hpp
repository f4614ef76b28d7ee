// The C API's host (kinora/embed.h), as other libraries of Kinora see it.
#pragma once
#include "core/runtime/runtime.hpp"
#include "kinora/embed.h"

namespace kinora::core {

// The runtime of an open host.
Runtime& runtime_of(kinora_embed& host);

}  // namespace kinora::core
