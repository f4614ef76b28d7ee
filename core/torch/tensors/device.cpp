#include "core/torch/tensors/device.hpp"

#include <dlfcn.h>

#include <ATen/Context.h>
#include <ATen/detail/CUDAHooksInterface.h>

#include "core/base/log.hpp"
#include "core/run/place.hpp"
#include "core/torch/tensors/torch_guard.hpp"

namespace kinora::core {
namespace {

// libtorch checks for CUDA once and keeps the result, so its CUDA library must be opened first. It is next to
// libtorch_cpu, which is already loaded.
std::string open_cuda() {
  if (!dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_GLOBAL)) {
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

}  // namespace

const std::string& why_no_gpu() {
  static const std::string why = open_cuda();
  return why;
}

at::Device device_of(const std::string& name) {
  if (name == "cpu") return at::kCPU;
  if (name == "auto") {
    if (!why_no_gpu().empty()) log_line(KINORA_LOG_DEBUG, "computing on the CPU: " + why_no_gpu());
    return why_no_gpu().empty() ? own_gpu() : at::Device(at::kCPU);
  }
  const auto device = [&] {
    try {
      return at::Device(name);
    } catch (const c10::Error&) {
      raise(KINORA_INVALID, "device '{}' is unknown; give auto, cpu, cuda or cuda:N", name);
    }
  }();
  if (!device.is_cuda())
    raise(KINORA_INVALID, "device '{}' is unknown; give auto, cpu, cuda or cuda:N", name);
  if (!why_no_gpu().empty()) raise(KINORA_UNSUPPORTED, "device '{}': {}", name, why_no_gpu());
  const int64_t there = at::detail::getCUDAHooks().deviceCount();
  if (device.has_index() && device.index() >= there)
    raise(KINORA_INVALID, "device '{}': there {} {}", name, there == 1 ? "is" : "are", there);
  return device.has_index() ? device : own_gpu();
}

}  // namespace kinora::core
