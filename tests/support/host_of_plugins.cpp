// Gives the host to parts of plugins that a test program contains: no entry is called for them.
#include "kinora/error.hpp"

extern "C" const kinora_host* kinora_core_host();

namespace {

[[maybe_unused]] const bool given = (kinora::g_host = kinora_core_host(), true);

}  // namespace
