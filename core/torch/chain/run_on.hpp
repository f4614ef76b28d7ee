// The run that a component's call on tensors gets.
#pragma once
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>

#include "core/runtime/call.hpp"
#include "kinora/whole.hpp"

namespace kinora::core {

// run: that of the caller, who shows the progress; null: nobody stops the call. With libtorch's number of threads.
inline kinora_run run_on(at::Device device, const kinora_run* run) {
  static Call nobody;
  kinora_run out = run ? detail::known(run, "the run") : run_of(nobody);
  if (!run) out.cancelled = [](void*) -> int32_t { return KINORA_OK; };
  out.device_type = device.is_cuda() ? KINORA_DL_CUDA : KINORA_DL_CPU;
  out.device_id = device.is_cuda() ? device.index() : 0;
  out.n_threads = at::get_num_threads();
  out.progress = nullptr;
  return out;
}

}  // namespace kinora::core
