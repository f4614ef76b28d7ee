// plugins.lock: the plugins that a run may open, with the SHA-256 of their libraries and manifests.
// `kinora plugins lock` writes it next to run files:
//
//   [plugin.samplers-edm]
//   version = "0.1.0"
//   library = "64 hexadecimal digits"
//   manifest = "64 hexadecimal digits"     # of plugin.toml; absent if it is inside the library only
#pragma once
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "core/plugin/registry.hpp"

namespace kinora::core {

constexpr const char* kPluginsLock = "plugins.lock";

class PluginsLock {
 public:
  // The plugins that would be opened: those that are not shadowed, one of each name. Throws Error if a file
  // cannot be read.
  static PluginsLock of(const std::vector<PluginInfo>& plugins);
  // Fails if the file does not exist or is not a lock.
  static Result<PluginsLock> read(const std::filesystem::path& file);

  std::string text() const;
  size_t size() const { return plugins_.size(); }

  // KINORA_ERROR_INVALID, with both digests and the command that renews the lock, if the plugin's files are
  // not those of the lock or the lock does not have it.
  Status allows(const PluginInfo& plugin) const;

 private:
  struct Files {
    std::string version, library, manifest;  // digests; manifest empty: no plugin.toml
  };
  static Files files_of(const PluginInfo& plugin);
  std::filesystem::path file_;
  std::map<std::string, Files> plugins_;
};

}  // namespace kinora::core
