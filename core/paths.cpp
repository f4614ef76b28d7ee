#include "core/paths.hpp"

#include <cstdlib>
#include <unistd.h>

#include <sys/stat.h>

namespace kinora::core {
namespace fs = std::filesystem;

fs::path executable_folder() {
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  return error ? fs::path() : self.parent_path();
}

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

std::vector<fs::path> split_paths(std::string_view list) {
  std::vector<fs::path> out;
  for (size_t begin = 0; begin <= list.size();) {
    const size_t end = std::min(list.find(':', begin), list.size());
    if (end > begin) out.emplace_back(list.substr(begin, end - begin));
    begin = end + 1;
  }
  return out;
}

std::string why_untrusted(const fs::path& path) {
  struct stat s {};
  if (stat(path.c_str(), &s) != 0) return "";
  const bool others_write = (s.st_mode & S_IWOTH) != 0;
  if (others_write && !(S_ISDIR(s.st_mode) && (s.st_mode & S_ISVTX))) {
    return fmt::format("{} is writable by every user; run: chmod o-w {}", path.string(), path.string());
  }
  // In a sticky folder (/tmp) anybody may put things, but nobody can change those of others.
  struct stat parent {};
  if (stat(path.parent_path().c_str(), &parent) == 0 && (parent.st_mode & S_IWOTH) && s.st_uid != geteuid() &&
      s.st_uid != 0) {
    return fmt::format(
        "{} belongs to another user in a folder that every user may write; move it to a folder of yours",
        path.string());
  }
  return "";
}

Result<fs::path> find_asset(std::string_view name) {
  const fs::path relative(name);
  for (const auto& part : relative) {
    if (part == ".." || relative.is_absolute() || relative.empty())
      return fail(KINORA_INVALID, "asset:{}: an asset is named by a relative path without '..'", name);
  }
  auto folders = split_paths(environment("KINORA_ASSETS"));
  folders.push_back((executable_folder() / "../share/kinora/assets").lexically_normal());
  std::string searched;
  for (const auto& folder : folders) {
    std::error_code error;
    if (!relative.empty() && fs::exists(folder / relative, error)) return fs::absolute(folder / relative);
    searched += (searched.empty() ? "" : ", ") + folder.string();
  }
  return fail(KINORA_NOT_FOUND,
              "asset:{}: not found in {}; set KINORA_ASSETS to the folder that has {}, or give a path", name,
              searched, name);
}

}  // namespace kinora::core
