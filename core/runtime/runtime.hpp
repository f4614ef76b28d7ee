// What every command needs, made once in main: the log, the plugins, the files.
#pragma once
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "core/io/io.hpp"
#include "core/plugin/host.hpp"
#include "core/plugin/registry.hpp"

namespace kinora::core {

struct RuntimeOptions {
  std::vector<std::filesystem::path> plugin_dirs;  // searched first
  std::string log_level;                           // empty: info, until a run file says another
};

class Runtime {
 public:
  static Result<std::unique_ptr<Runtime>> start(const RuntimeOptions& options) {
    adopt_host();  // of the caller's program; core's own is adopted inside
    return make(options);
  }
  ~Runtime();
  Registry& registry() { return registry_; }
  Io& io() { return io_; }
  // Whether the caller chose a level, which then goes before a run file's.
  bool has_log_level() const { return has_log_level_; }

  // How libtorch comes into the process; called on first need.
  void torch_loader(std::function<Status()> load) { set_torch_loader(std::move(load)); }

 private:
  static Result<std::unique_ptr<Runtime>> make(const RuntimeOptions& options);
  explicit Runtime(Registry registry);
  Registry registry_;
  Io io_{registry_};
  bool has_log_level_ = false;
};

}  // namespace kinora::core
