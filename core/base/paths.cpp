#include "core/base/paths.hpp"

#include <cerrno>
#include <cstdlib>
#include <deque>
#include <dlfcn.h>
#include <grp.h>
#include <pwd.h>
#include <unistd.h>

#include <sys/stat.h>

namespace kinora::core {
namespace fs = std::filesystem;

fs::path executable_folder() {
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  return error ? fs::path() : self.parent_path();
}

fs::path library_folder() {
  Dl_info library{};
  if (dladdr(reinterpret_cast<const void*>(&library_folder), &library) == 0) return executable_folder();
  return fs::path(library.dli_fname).parent_path();
}

fs::path program_folder() {
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  if (!error && self.filename() == "kinora") return self.parent_path();
  const fs::path folder = fs::canonical(library_folder(), error);
  return error ? executable_folder() : (folder / "../bin").lexically_normal();
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

namespace {

// Trusts root, this user, and the owner of the running program, which could do anything anyway.
bool is_trusted_owner(uid_t owner) {
  static const uid_t program = [] {
    struct stat self {};
    return stat("/proc/self/exe", &self) == 0 ? self.st_uid : 0;
  }();
  return owner == 0 || owner == geteuid() || owner == program;
}

// Whether the group is root's, or contains only its owner, as systems create one for every user, with the
// same name; with the same number where neither has a name (containers).
bool is_private_group(const struct stat& s) {
  if (s.st_gid == 0) return true;
  char users[4096], groups[4096];
  struct passwd user {
  }, *known_user = nullptr;
  struct group own {
  }, *known_group = nullptr;
  if (getpwuid_r(s.st_uid, &user, users, sizeof users, &known_user) != 0 ||
      getgrgid_r(s.st_gid, &own, groups, sizeof groups, &known_group) != 0)
    return false;
  if (!known_user && !known_group) return s.st_uid == s.st_gid;
  return known_user && known_group && std::string_view(user.pw_name) == own.gr_name;
}

// A missing file can be created by anyone who may write to the folder, sticky or not. If only trusted users
// may, it is just missing, which its reader will report.
std::string why_open(const fs::path& folder, const fs::path& missing) {
  struct stat s {};
  if (lstat(folder.c_str(), &s) != 0) return "";
  const bool every = s.st_mode & S_IWOTH;
  if (!every && (!(s.st_mode & S_IWGRP) || is_private_group(s))) return "";
  return fmt::format("{} does not exist, and {} may create it; create it, or use a folder of your own",
                     missing.string(), every ? "every user" : "a group");
}

// In a sticky folder (/tmp) everyone may create files, but only the owner of a file may change it.
std::string why_changeable(const fs::path& path, const struct stat& s) {
  const std::string name = path.string();
  if (!is_trusted_owner(s.st_uid))
    return fmt::format("{} belongs to another user; move it to a folder of your own, or run: chown {} {}",
                       name, geteuid(), name);
  if (S_ISLNK(s.st_mode) || (S_ISDIR(s.st_mode) && (s.st_mode & S_ISVTX))) return "";
  if (s.st_mode & S_IWOTH) return fmt::format("{} is writable by every user; run: chmod o-w {}", name, name);
  if ((s.st_mode & S_IWGRP) && !is_private_group(s))
    return fmt::format("{} is writable by its group; run: chmod g-w {}", name, name);
  return "";
}

}  // namespace

std::string why_untrusted(const fs::path& path, PassedFolders* passed) {
  std::error_code error;
  fs::path at = "/";
  std::deque<fs::path> rest;
  const auto put_first = [&](const fs::path& more) { rest.insert(rest.begin(), more.begin(), more.end()); };
  put_first(fs::absolute(path, error));
  for (int links = 0; !rest.empty();) {
    const fs::path part = rest.front();
    rest.pop_front();
    if (part.empty() || part == ".") continue;
    const fs::path next = part == ".." ? at.parent_path() : part.is_absolute() ? part : at / part;
    if (passed && passed->contains(next.native())) {
      at = next;
      continue;
    }
    struct stat s {};
    if (lstat(next.c_str(), &s) != 0) return errno == ENOENT ? why_open(at, next) : "";
    if (auto why = why_changeable(next, s); !why.empty()) return why;
    if (!S_ISLNK(s.st_mode)) {
      if (passed && S_ISDIR(s.st_mode)) passed->insert(next.native());
      at = next;
      continue;
    }
    if (++links > 40) return "";
    put_first(fs::read_symlink(next, error));
  }
  return "";
}

Result<fs::path> find_asset(std::string_view name) {
  const fs::path relative(name);
  for (const auto& part : relative) {
    if (part == ".." || relative.is_absolute() || relative.empty())
      return fail(KINORA_ERROR_INVALID, "asset:{}: an asset is named by a relative path without '..'", name);
  }
  auto folders = split_paths(environment("KINORA_ASSETS"));
  folders.push_back((program_folder() / "../share/kinora/assets").lexically_normal());
  std::string searched;
  for (const auto& folder : folders) {
    std::error_code error;
    if (!relative.empty() && fs::exists(folder / relative, error)) return fs::absolute(folder / relative);
    searched += (searched.empty() ? "" : ", ") + folder.string();
  }
  return fail(KINORA_ERROR_NOT_FOUND,
              "asset:{}: not found in {}; set KINORA_ASSETS to the folder that contains {}, or give a path",
              name, searched, name);
}

}  // namespace kinora::core
