// Its entry throws what is no std::exception here, as an exception of another C++ library would not be.
#include "kinora/abi/plugin.h"
extern "C" KINORA_EXPORT const kinora_plugin* kinora_plugin_entry(const kinora_host*) { throw 42; }
