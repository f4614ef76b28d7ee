#include "core/torch/tensors/device.hpp"

#include <dlfcn.h>
#include <filesystem>

#include <ATen/Context.h>
#include <ATen/detail/CUDAHooksInterface.h>

#include "core/base/log.hpp"
#include "core/build_info.hpp"
#include "core/plugin/host.hpp"
#include "core/runtime/place.hpp"
#include "core/torch/tensors/torch_guard.hpp"

namespace kinora::core {
namespace {

// libtorch checks for CUDA once and keeps the result, so its CUDA library must be opened first. It is next to
// libtorch_cpu, which is already loaded.
std::string open_cuda() {
  Dl_info cpu{};
  dladdr(reinterpret_cast<const void*>(&at::globalContext), &cpu);
  const auto folder = std::filesystem::path(cpu.dli_fname ? cpu.dli_fname : "").parent_path();
  if (!dlopen((folder / "libtorch_cuda.so").c_str(), RTLD_NOW | RTLD_GLOBAL)) {
    const char* error = dlerror();
    return std::string("libtorch's CUDA library cannot be opened: ") + (error ? error : "unknown") +
           "; install CUDA's libraries, or set device = \"cpu\"";
  }
  if (!at::hasCUDA() || at::detail::getCUDAHooks().deviceCount() == 0)
    return "libtorch's CUDA library finds no GPU; nvidia-smi lists those that the driver knows";
  return "";
}

// Each of several ranks on a node takes the next GPU; under srun each may see only its own.
at::Device own_gpu() {
  const int64_t there = at::detail::getCUDAHooks().deviceCount();
  return {at::kCUDA, static_cast<at::DeviceIndex>(here().local_rank % there)};
}

at::Device device_named(const std::string& name) {
  if (name == "cpu") return at::kCPU;
  if (name == "auto") {
    if (!why_no_gpu().empty()) log_line(KINORA_LOG_DEBUG, "computing on the CPU: " + why_no_gpu());
    return why_no_gpu().empty() ? own_gpu() : at::Device(at::kCPU);
  }
  const auto device = [&] {
    try {
      return at::Device(name);
    } catch (const c10::Error&) {
      raise(KINORA_ERROR_INVALID, "device '{}' is unknown; give auto, cpu, cuda or cuda:N", name);
    }
  }();
  if (!device.is_cuda())
    raise(KINORA_ERROR_INVALID, "device '{}' is unknown; give auto, cpu, cuda or cuda:N", name);
  if (!why_no_gpu().empty()) raise(KINORA_ERROR_UNSUPPORTED, "device '{}': {}", name, why_no_gpu());
  const int64_t there = at::detail::getCUDAHooks().deviceCount();
  if (device.has_index() && device.index() >= there)
    raise(KINORA_ERROR_INVALID, "device '{}': there {} {}", name, there == 1 ? "is" : "are", there);
  return device.has_index() ? device : own_gpu();
}

}  // namespace

const std::string& why_no_gpu() {
  static const std::string why = open_cuda();
  return why;
}

namespace {

struct Library {
  const kinora_cuda_api* table = nullptr;
  std::string why_not;
};

// It is next to this library, in this library's run path.
Library open_library() {
  void* library = dlopen(KINORA_LIBRARY("kinora_cuda"), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char* error = dlerror();
    return {nullptr, std::string("libkinora_cuda cannot be opened: ") + (error ? error : "unknown")};
  }
  using Open = const kinora_cuda_api* (*)(const kinora_host*);
  const auto open = reinterpret_cast<Open>(dlsym(library, "kinora_cuda_open"));
  const kinora_cuda_api* table = open ? open(&core_host()) : nullptr;
  if (!table || !KINORA_HAS(table, attention_close))
    return {nullptr, "libkinora_cuda is of another version; install all of Kinora from one package"};
  register_interface(KINORA_INTERFACE_CUDA, KINORA_ABI_MINOR, table);
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
    log_line(KINORA_LOG_DEBUG,
             "without fused kernels, CUDA graphs and asynchronous copies: " + the_library().why_not);
  return the_library().table;
}

// The library is open before there is a tensor on the GPU: plugins find its kernels from the first one on.
at::Device device_of(const std::string& name) {
  const at::Device device = device_named(name);
  cuda_library(device);
  return device;
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
