// Copies plugins of this folder to a temporary folder, each with the manifest that a test wants.
#pragma once
#include <filesystem>
#include <fstream>
#include <string>
#include <unistd.h>

#include "core/plugin/registry.hpp"

namespace kinora::core::test {

namespace fs = std::filesystem;

struct Manifest {
  std::string name = {}, version = "0.1.0", abi = "1.0", tier = "stable", more = {}, id = "stage/minimal",
              options = {};
  std::string text() const {
    return "[plugin]\nmanifest = 1\nname = \"" + name + "\"\nversion = \"" + version + "\"\nabi = \"" + abi +
           "\"\ntier = \"" + tier + "\"\n" + more + "\n[[component]]\nid = \"" + id +
           "\"\nhelp = \"of a test\"\n" + options;
  }
};

class PluginsFolder {
 public:
  PluginsFolder() {
    std::string name = (fs::temp_directory_path() / "kinora-abi-XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  PluginsFolder(const PluginsFolder&) = delete;
  PluginsFolder& operator=(const PluginsFolder&) = delete;
  ~PluginsFolder() { fs::remove_all(path_); }

  const fs::path& path() const { return path_; }
  static fs::path built(const std::string& name) {
    return fs::path(KINORA_ABI_PLUGINS) / ("lib" + name + ".so");
  }
  // The plugin's folder, with a copy of the built library `from`.
  fs::path add(const Manifest& manifest, const std::string& from = {}) const {
    const fs::path folder = path_ / manifest.name;
    fs::create_directories(folder);
    std::ofstream(folder / "plugin.toml") << manifest.text();
    fs::copy_file(built(from.empty() ? manifest.name : from), folder / ("lib" + manifest.name + ".so"));
    return folder;
  }
  Registry scan() const { return Registry::scan({{path_, "--plugins", true}}, like_release()); }
  static HostFacts like_release() {
    HostFacts host;
    host.torch = "2.11.0";
    host.cxx_abi = "1";
    return host;
  }

 private:
  fs::path path_;
};

}  // namespace kinora::core::test
