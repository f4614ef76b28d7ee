// Runs a short program and returns the text that it prints.
#pragma once

#include <string>
#include <vector>

namespace kinora::core {

// The standard output of the program words[0], which is found on PATH if the name has no slash; what it writes to
// stderr is hidden. "" if it does not start.
std::string output_of(std::vector<std::string> words);

}  // namespace kinora::core
