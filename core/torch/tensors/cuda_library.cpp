#include "core/torch/tensors/cuda_library.hpp"

#include <dlfcn.h>

#include "core/base/log.hpp"
#include "core/plugin/host.hpp"

namespace kinora::core {
namespace {

struct Library {
  const kinora_cuda_api* table = nullptr;
  std::string why_not;
};

// It is next to this library, in this library's run path.
Library open_library() {
  void* library = dlopen("libkinora_cuda.so", RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char* error = dlerror();
    return {nullptr, std::string("libkinora_cuda cannot be opened: ") + (error ? error : "unknown")};
  }
  using Open = const kinora_cuda_api* (*)(const kinora_host*);
  const auto open = reinterpret_cast<Open>(dlsym(library, "kinora_cuda_open"));
  const kinora_cuda_api* table = open ? open(&core_host()) : nullptr;
  if (!table || table->struct_size < sizeof(kinora_cuda_api))
    return {nullptr, "libkinora_cuda is of another version; install all of Kinora from one package"};
  register_interface(KINORA_CUDA, 0, table);
  return {table, ""};
}

const Library& the_library() {
  static const Library library = open_library();
  return library;
}

}  // namespace

const std::string& why_no_cuda_library() { return the_library().why_not; }

const kinora_cuda_api* cuda_library(at::Device device) {
  if (!device.is_cuda()) return nullptr;
  if (!the_library().table)
    log_line(KINORA_LOG_DEBUG, "without CUDA graphs and asynchronous copies: " + the_library().why_not);
  return the_library().table;
}

void add_memory(nlohmann::json& to, at::Device device) {
  const auto* cuda = cuda_library(device);
  if (!cuda) return;
  kinora_cuda_memory memory{};
  memory.struct_size = sizeof memory;
  check(cuda->memory(device.index(), &memory));
  to["gpu_peak_bytes"] = memory.allocated_peak;
  to["gpu_reserved_bytes"] = memory.reserved_peak;
}

}  // namespace kinora::core
