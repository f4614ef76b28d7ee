// The needs of every command, made once in main: the log, the plugins, the files; and libtorch's part, which is
// opened when a job or plugin first needs tensors, so that everything else starts without it.
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
  std::filesystem::path plugins_lock;              // empty: any plugin may be opened
};

class Runtime {
 public:
  static Result<std::unique_ptr<Runtime>> start(const RuntimeOptions& options) { return make(options); }
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

// Opens libkinora_torch next to this library; it registers the tensor interface and offers its service
// (tensor_service.hpp). Give it to Runtime::torch_loader().
Status open_torch_library();

}  // namespace kinora::core
