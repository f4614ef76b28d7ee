// Runs commands that benchmarks compare with.
#pragma once
#include <string>

namespace kinora {

std::string shell_quoted(const std::string& s);
// A command's standard output; empty if it failed.
std::string output_of(const std::string& command);

}  // namespace kinora
