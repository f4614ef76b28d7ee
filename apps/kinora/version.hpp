#pragma once
#include <string>

namespace kinora {

// Versions of the program, of the libtorch it was built for, and of the FFmpeg that its plugins will load.
std::string version_text();

}  // namespace kinora
