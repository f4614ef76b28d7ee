#include "apps/kinora/shell.hpp"

#include <cstdio>
#include <memory>

namespace kinora {

std::string shell_quoted(const std::string& s) {
  std::string out = "'";
  for (char c : s) out += c == '\'' ? "'\\''" : std::string(1, c);
  return out + "'";
}

// A command's standard output; empty if it failed.
std::string output_of(const std::string& command) {
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen((command + " 2>/dev/null").c_str(), "r"), pclose);
  std::string out;
  char part[4096];
  while (pipe && std::fgets(part, sizeof part, pipe.get())) out += part;
  return out;
}

}  // namespace kinora
