#include "core/runtime/runtime.hpp"

#include <cstdlib>
#include <dlfcn.h>
#include <map>
#include <mutex>

#include <boost/dll/runtime_symbol_info.hpp>
#include <boost/dll/shared_library.hpp>

#include "core/base/log.hpp"
#include "core/build_info.hpp"
#include "core/plugin/libtorch.hpp"
#include "core/plugin/plugins_lock.hpp"
#include "core/runtime/model_outline.hpp"
#include "core/runtime/plain_chain.hpp"

namespace kinora::core {

Runtime::Runtime(Registry registry) : registry_(std::move(registry)) { serve_io(&io_); }

Runtime::~Runtime() { serve_io(nullptr); }

namespace {

// What every process of Kinora needs, whoever started it: the program, a worker, a rank, a program that embeds
// libkinora. libgomp, which comes with libtorch, reads this when it is loaded. By default its threads spin
// while they wait and take cores from other processes: next to one busy process, 40 training steps took 36 s,
// with this setting 21 s; alone 21 s and 18 s.
void prepare_process() { ::setenv("OMP_WAIT_POLICY", "passive", 0); }

}  // namespace

Result<std::unique_ptr<Runtime>> Runtime::make(const RuntimeOptions& options) {
  prepare_process();
  const auto status = start_log(options.log_level.empty() ? "info" : options.log_level);
  if (!status) return status.failure();
  std::unique_ptr<Runtime> made(new Runtime(Registry::scan(search_folders(options.plugin_dirs))));
  made->has_log_level_ = !options.log_level.empty();
  if (options.plugins_lock.empty()) return made;
  auto lock = PluginsLock::read(options.plugins_lock);
  if (!lock) return lock.failure();
  if (const auto locked = made->registry_.use_lock(*std::move(lock)); !locked) return locked.failure();
  return made;
}

namespace {

struct Parts {
  std::mutex mutex;
  std::map<std::string, ApplyFunction> applies;
  std::map<std::string, ToolFunction> tools;
  NoiseFunction noise = nullptr;
  FittingFunction fitting = nullptr;
  OutlineFunction outline = nullptr;
  LayoutRefusalFunction layout_refusal = nullptr;
  PlainChainFunction chain = nullptr;
};

Parts& parts() {
  static Parts all;
  return all;
}

template <class F>
F find(const std::map<std::string, F>& in, const std::string& name, const char* what) {
  const std::scoped_lock lock(parts().mutex);
  const auto it = in.find(name);
  if (it == in.end())
    throw Error(KINORA_ERROR_UNSUPPORTED, std::string("libkinora_torch beside this program has no ") + what +
                                              " for '" + name +
                                              "': it is of another version; install both from one package");
  return it->second;
}

// Opens a library of the folder that holds this one and calls its function.
Status open_beside(boost::dll::shared_library& library, const std::string& file, const std::string& function,
                   boost::dll::load_mode::type visibility) {
  const auto path = boost::dll::this_line_location().parent_path() / file;
  std::error_code error;
  library.load(path, boost::dll::load_mode::rtld_now | visibility, error);
  if (error) {
    const char* why = dlerror();
    return fail(KINORA_ERROR_FAILED, "cannot open {}: {}; install all of Kinora from one package",
                path.string(), why ? why : error.message());
  }
  library.get<void(const kinora_host*)>(function)(&core_host());
  return {};
}

// Opens lib<LIBRARY>, whose function <LIBRARY>_open registers its parts.
void open_shared_library(const std::string& library) {
  or_throw(ensure_torch());
  static auto* opened = new std::map<std::string, boost::dll::shared_library>;
  static std::mutex mutex;
  const std::scoped_lock lock(mutex);
  if (auto& one = (*opened)[library]; !one.is_loaded())
    or_throw(open_beside(one, fmt::format(KINORA_LIBRARY("{}"), library), library + "_open",
                         boost::dll::load_mode::rtld_local));
}

}  // namespace

Status open_torch_library() {
  // libtorch's libraries refer to each other's symbols: they must be visible to plugins of the pinned tier.
  // What needs them by name gets those that are already in the process.
  const auto& torch = libtorch_folder();
  if (!torch) return torch.failure();
  if (!dlopen((*torch / "libtorch_cpu.so").c_str(), RTLD_NOW | RTLD_GLOBAL)) {
    const char* why = dlerror();
    return fail(KINORA_ERROR_FAILED, "cannot open libtorch: {}; install what the torch package requires",
                why ? why : "unknown");
  }
  static auto* library = new boost::dll::shared_library();  // never unloaded: libtorch cannot be
  return open_beside(*library, KINORA_LIBRARY("kinora_torch"), "kinora_torch_open",
                     boost::dll::load_mode::rtld_global);
}

void register_apply(const std::string& kind, ApplyFunction f) {
  const std::scoped_lock lock(parts().mutex);
  parts().applies[kind] = f;
}

void register_tool(const std::string& name, ToolFunction f) {
  const std::scoped_lock lock(parts().mutex);
  parts().tools[name] = f;
}

void register_noise(NoiseFunction f) {
  const std::scoped_lock lock(parts().mutex);
  parts().noise = f;
}

void register_fitting(FittingFunction f) {
  const std::scoped_lock lock(parts().mutex);
  parts().fitting = f;
}

FittingFunction torch_fitting() {
  or_throw(ensure_torch());
  const std::scoped_lock lock(parts().mutex);
  return parts().fitting;
}

int32_t draw_noise(uint64_t seed, int64_t first_sample, const char* key, kinora_tensor like,
                   kinora_tensor* out) {
  return guard([&] {
    if (!key || !like || !out) throw Error(KINORA_ERROR_INVALID, "noise: the key, `like` or `out` is null");
    or_throw(ensure_torch());
    const NoiseFunction draw = [] {
      const std::scoped_lock lock(parts().mutex);
      return parts().noise;
    }();
    check(draw(seed, first_sample, key, like, out));
  });
}

// For a command, which cannot begin without libtorch: the exit code of a wrong set-up, as for a plugin that is
// disabled since there is none.
static void require_torch() {
  if (const auto torch = ensure_torch(); !torch) throw Error(KINORA_ERROR_INVALID, torch.failure().message);
}

ApplyFunction torch_apply(const std::string& kind) {
  require_torch();
  return find(parts().applies, kind, "apply");
}

ToolFunction torch_tool(const std::string& name) {
  require_torch();
  return find(parts().tools, name, "command");
}

ToolFunction tool_of(const std::string& library, const std::string& name) {
  open_shared_library(library);
  return torch_tool(name);
}

void register_outline(OutlineFunction f) {
  const std::scoped_lock lock(parts().mutex);
  parts().outline = f;
}

ModelOutline model_outline(const JobView& train, const std::optional<LatentSize>& latent) {
  open_shared_library("kinora_training");
  const OutlineFunction outline = [] {
    const std::scoped_lock lock(parts().mutex);
    return parts().outline;
  }();
  return outline(train, latent);
}

void register_layout_refusal(LayoutRefusalFunction f) {
  const std::scoped_lock lock(parts().mutex);
  parts().layout_refusal = f;
}

std::string layout_refusal(const JobView& train, int64_t ranks) {
  open_shared_library("kinora_training");
  const LayoutRefusalFunction refusal = [] {
    const std::scoped_lock lock(parts().mutex);
    return parts().layout_refusal;
  }();
  return refusal(train, ranks);
}

void register_plain_chain(PlainChainFunction f) {
  const std::scoped_lock lock(parts().mutex);
  parts().chain = f;
}

std::unique_ptr<PlainChain> plain_chain(const PlainChainOptions& options,
                                        const std::vector<const kinora_link*>& links) {
  or_throw(ensure_torch());
  const PlainChainFunction make = [] {
    const std::scoped_lock lock(parts().mutex);
    return parts().chain;
  }();
  return make(options, links);
}

}  // namespace kinora::core
