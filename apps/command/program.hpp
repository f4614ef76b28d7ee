// The start and the end that the programs kinora and kinora-bench share.
#pragma once
#include <functional>
#include <memory>

#include "apps/command/command_line.hpp"

namespace kinora {

// The runtime of a program that runs components: it opens libtorch's part of the host on first need and starts
// worker processes of the program kinora next to this one. Null: a message was printed.
std::unique_ptr<core::Runtime> start_runtime(const core::RuntimeOptions& flags);

// The program's exit code; prints every error that it throws.
int run_and_report(const std::function<int()>& program, const std::string& help = "--help");

// For the end of main(). Ends the process at once, without the destructors of libtorch's tables, which take
// 0.1 s; under a sanitizer returns the code, because sanitizers report as the program exits.
int end_with(int code);

}  // namespace kinora
