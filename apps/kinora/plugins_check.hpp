// The checks of `kinora plugins validate` on one library.
#pragma once
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

namespace kinora {

struct Check {
  std::string what;
  bool good;
  std::string why;  // empty if good
};

// Checks the library against its manifest and this host, until a check makes the next ones meaningless. Opens
// it, so its code runs and may end this process or never return: begins() is called before a check that runs
// it, ends() after each check.
void check_plugin(const std::filesystem::path& library, const std::function<void(const std::string&)>& begins,
                  const std::function<void(const Check&)>& ends);

}  // namespace kinora
