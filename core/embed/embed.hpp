// What other libraries of Kinora need of the C API's host (kinora/embed.h).
#pragma once
#include "core/runtime/runtime.hpp"
#include "kinora/embed.h"

namespace kinora::core {

// Of an open host.
Runtime& runtime_of(kinora_embed& host);

}  // namespace kinora::core
