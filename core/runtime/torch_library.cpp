#include "core/runtime/torch_library.hpp"

#include <dlfcn.h>
#include <map>
#include <mutex>

#include <boost/dll/runtime_symbol_info.hpp>
#include <boost/dll/shared_library.hpp>

#include "core/build_info.hpp"
#include "core/plugin/host.hpp"

namespace kinora::core {
namespace {

struct Parts {
  std::mutex mutex;
  std::map<std::string, JobCode> jobs;
  std::map<std::string, ApplyFunction> applies;
  std::map<std::string, ToolFunction> tools;
  NoiseFunction noise = nullptr;
  FittingFunction fitting = nullptr;
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
    throw Error(KINORA_UNSUPPORTED, std::string("libkinora_torch beside this program has no ") + what +
                                        " for '" + name +
                                        "': it is of another version; install both from one package");
  return it->second;
}

}  // namespace

Status open_torch_library() {
  const auto folder = boost::dll::this_line_location().parent_path();
  std::error_code error;
  // libtorch's libraries refer to each other's symbols: they must be visible to plugins of the pinned tier.
  static auto* library = new boost::dll::shared_library();  // never unloaded: libtorch cannot be
  library->load(folder / "libkinora_torch.so",
                boost::dll::load_mode::rtld_now | boost::dll::load_mode::rtld_global, error);
  if (error) {
    const char* why = dlerror();
    return fail(KINORA_FAILED, "cannot open {}: {}; is libtorch {} installed? see the README's installation",
                (folder / "libkinora_torch.so").string(), why ? why : error.message(), KINORA_TORCH_VERSION);
  }
  library->get<void(const kinora_host*)>("kinora_torch_open")(&core_host());
  return {};
}

void register_job(const std::string& kind, JobCode f) {
  const std::scoped_lock lock(parts().mutex);
  parts().jobs[kind] = f;
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

// Null in a program that registers none.
FittingFunction torch_fitting() {
  or_throw(ensure_torch());
  const std::scoped_lock lock(parts().mutex);
  return parts().fitting;
}

int32_t draw_noise(uint64_t seed, int64_t first_sample, const char* key, kinora_tensor like,
                   kinora_tensor* out) {
  return guard([&] {
    if (!key || !like || !out) throw Error(KINORA_INVALID, "noise: the key, `like` or `out` is null");
    or_throw(ensure_torch());
    const NoiseFunction draw = [] {
      const std::scoped_lock lock(parts().mutex);
      return parts().noise;
    }();
    check(draw(seed, first_sample, key, like, out));
  });
}

JobCode torch_job(const std::string& kind) {
  or_throw(ensure_torch());
  return find(parts().jobs, kind, "job");
}

ApplyFunction torch_apply(const std::string& kind) {
  or_throw(ensure_torch());
  return find(parts().applies, kind, "apply");
}

ToolFunction torch_tool(const std::string& name) {
  or_throw(ensure_torch());
  return find(parts().tools, name, "command");
}

}  // namespace kinora::core
