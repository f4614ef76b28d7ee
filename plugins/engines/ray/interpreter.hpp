// The Python that runs the bridge.
#pragma once
#include <string>

namespace kinora::ray {

// asked: the engine's option; empty: that of VIRTUAL_ENV, else python3 on PATH.
std::string interpreter_of(const std::string& asked);

// Starts it to see that it has kinora-ray and Kinora of this version and a Ray that kinora-ray takes; connects to
// nothing. Throws Error(KINORA_ERROR_NOT_FOUND), whose one line has a remedy.
void check_interpreter(const std::string& python, const std::string& version);

}  // namespace kinora::ray
