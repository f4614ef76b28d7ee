#include "plugins/jobs/listing/scratch_folder.hpp"

#include <algorithm>
#include <iterator>
#include <unistd.h>

#include <fmt/format.h>

#include "core/base/paths.hpp"
#include "kinora/error.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;

bool has_room_for_files(const fs::path& folder) {
  std::error_code error;
  return fs::is_directory(folder, error) && ::access(folder.c_str(), W_OK | X_OK) == 0;
}

}  // namespace

fs::path scratch_folder() {
  const std::string chosen = environment("SQLITE_TMPDIR");
  const fs::path places[] = {chosen, environment("TMPDIR"), "/var/tmp", "/usr/tmp", "/tmp"};
  if (!chosen.empty() && !has_room_for_files(chosen))
    throw Error(KINORA_ERROR_INVALID,
                fmt::format("SQLITE_TMPDIR={}: it is no folder in which files can be made, "
                            "for the list of inputs; create it, or name another one",
                            chosen));
  const auto* const found = std::ranges::find_if(places, has_room_for_files);
  return found == std::end(places) ? "." : *found;
}

std::string scratch_name(const std::string& what) {
  return fmt::format("{} (a temporary file in {}; SQLITE_TMPDIR names another folder)", what,
                     scratch_folder().string());
}

}  // namespace kinora::core
