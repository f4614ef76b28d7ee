// What every command needs, made once in main: the log, the plugins, the files; and libtorch's part, which is
// opened when a job or plugin first needs tensors, so that everything else starts without it.
#pragma once
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "core/io/io.hpp"
#include "core/plugin/host.hpp"
#include "core/plugin/registry.hpp"
#include "kinora/abi/tensor.h"

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

struct ApplyRequest;
struct ApplyResult;
using ApplyFunction = ApplyResult (*)(Runtime&, const ApplyRequest&);

// Opens libkinora_torch next to this library; it registers the tensor interface and its part of `apply`. Give
// it to Runtime::torch_loader().
Status open_torch_library();

// Called by libkinora_torch when it is opened.
void register_apply(const std::string& kind, ApplyFunction);

// Commands on weights: "convert", "inspect".
using ToolFunction = json (*)(Runtime&, const json& request);
void register_tool(const std::string& name, ToolFunction);

// Standard normal numbers for kinora_run.noise: see there. Row b of `like` is global sample first_sample + b.
using NoiseFunction = int32_t (*)(uint64_t seed, int64_t first_sample, const char* key, kinora_tensor like,
                                  kinora_tensor* out);
void register_noise(NoiseFunction);
int32_t draw_noise(uint64_t seed, int64_t first_sample, const char* key, kinora_tensor like,
                   kinora_tensor* out);

// The options of a component whose weights say more (core/torch/context/fitting.hpp).
using FittingFunction = json (*)(const Component&, const json& given,
                                 const std::vector<std::filesystem::path>& weights);
void register_fitting(FittingFunction);

// Open libkinora_torch first. Throw kinora::Error if it cannot be opened or has no such part.
ApplyFunction torch_apply(const std::string& kind);
ToolFunction torch_tool(const std::string& name);
FittingFunction torch_fitting();  // null: libkinora_torch registers none
// A tool of another library next to this one, lib<LIBRARY>.so, whose function <LIBRARY>_open registers its
// tools.
ToolFunction tool_of(const std::string& library, const std::string& name);

}  // namespace kinora::core
