#include "core/runtime/runtime.hpp"

#include <atomic>
#include <cstdlib>
#include <dlfcn.h>

#include <boost/dll/shared_library.hpp>

#include "core/base/log.hpp"
#include "core/base/paths.hpp"
#include "core/build_info.hpp"
#include "core/plugin/libtorch.hpp"
#include "core/plugin/plugins_lock.hpp"
#include "core/runtime/tensor_service.hpp"

namespace kinora::core {

Runtime::Runtime(Registry registry) : registry_(std::move(registry)) { serve_io(&io_); }

Runtime::~Runtime() { serve_io(nullptr); }

namespace {

// The environment of every process of Kinora, whoever started it: the program, a worker, a rank, a program that embeds
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

std::atomic<const TensorService*> offered = nullptr;

}  // namespace

Status open_torch_library() {
  // libtorch's libraries refer to each other's symbols: they must be visible to plugins of the pinned tier.
  // A library that needs them by name gets those that are already in the process.
  const auto& torch = libtorch_folder();
  if (!torch) return torch.failure();
  if (!dlopen((*torch / "libtorch_cpu.so").c_str(), RTLD_NOW | RTLD_GLOBAL)) {
    const char* why = dlerror();
    return fail(KINORA_ERROR_FAILED, "cannot open libtorch: {}; install what the torch package requires",
                why ? why : "unknown");
  }
  static auto* library = new boost::dll::shared_library();  // never unloaded: libtorch cannot be
  const auto path = library_folder() / KINORA_LIBRARY("kinora_torch");
  std::error_code error;
  library->load(path, boost::dll::load_mode::rtld_now | boost::dll::load_mode::rtld_global, error);
  if (error) {
    const char* why = dlerror();
    return fail(KINORA_ERROR_FAILED, "cannot open {}: {}; install all of Kinora from one package",
                path.string(), why ? why : error.message());
  }
  library->get<void(const kinora_host*)>("kinora_torch_open")(&core_host());
  return {};
}

void offer_tensors(const TensorService& service) { offered = &service; }

const TensorService* tensors_if_offered() {
  or_throw(ensure_torch());
  return offered;
}

const TensorService& tensors() {
  // For a command, which cannot begin without libtorch: the exit code of a wrong set-up, as for a plugin that is
  // disabled since there is none.
  if (const auto torch = ensure_torch(); !torch) throw Error(KINORA_ERROR_INVALID, torch.failure().message);
  return *offered;
}

int32_t draw_noise(uint64_t seed, int64_t first_sample, const char* key, kinora_tensor like,
                   kinora_tensor* out) {
  return guard([&] {
    if (!key || !like || !out) throw Error(KINORA_ERROR_INVALID, "noise: the key, `like` or `out` is null");
    check(tensors().noise(seed, first_sample, key, like, out));
  });
}

}  // namespace kinora::core
