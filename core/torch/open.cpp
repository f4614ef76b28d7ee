// Entry point of the library: registers the tensor interface, its tools, and apply for tensors.
#include <cstdlib>
#include <malloc.h>

#include "core/plugin/host.hpp"
#include "core/run/apply.hpp"
#include "core/runtime/runtime.hpp"
#include "core/torch/apply/tools.hpp"
#include "core/torch/context/fitting.hpp"
#include "core/torch/context/plain_chain.hpp"
#include "core/torch/tensors/noise.hpp"
#include "core/torch/tensors/tensors_api.hpp"
#include "core/torch/tensors/torch_guard.hpp"
#include "kinora/abi/plugin.h"
#include "kinora/aten.hpp"

namespace kinora::core {
namespace {

int32_t noise(uint64_t seed, int64_t first_sample, const char* key, kinora_tensor like, kinora_tensor* out) {
  return torch_guard([&] { *out = give(sample_noise(borrow<at::Tensor>(like), seed, first_sample, key)); });
}

// Tensors come and go with every layer. By default glibc requests each large one from the kernel again and
// returns it, and its pages are zeroed every time: 3 to 14 % of a training step in three pairs of runs.
// Environment variables that tune the allocator take precedence.
void keep_freed_memory() {
  if (std::getenv("MALLOC_TRIM_THRESHOLD_") || std::getenv("MALLOC_MMAP_THRESHOLD_")) return;
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 256 << 20);
}

}  // namespace
}  // namespace kinora::core

extern "C" KINORA_EXPORT void kinora_torch_open(const kinora_host* host) {
  using namespace kinora::core;
  kinora::g_host = host;
  keep_freed_memory();
  register_interface(KINORA_INTERFACE_TENSORS, KINORA_ABI_MINOR, tensors_api_table());
  register_noise(noise);
  register_fitting(
      plain<with_fitting_size, const Component, const json, const std::vector<std::filesystem::path>>);
  register_plain_chain(make_plain_chain);
  register_tool("convert", plain<static_cast<ToolFunction>(convert_weights), Runtime, const json>);
  register_tool("inspect", plain<inspect_component, Runtime, const json>);
  register_apply("tokenizer", plain<apply_tokenizer, Runtime, const ApplyRequest>);
  register_apply("model", plain<apply_model, Runtime, const ApplyRequest>);
  register_apply("loss", plain<apply_loss, Runtime, const ApplyRequest>);
  register_apply("sampler", plain<apply_sampler, Runtime, const ApplyRequest>);
  register_apply("score", plain<apply_score, Runtime, const ApplyRequest>);
  register_apply("precision", plain<apply_precision, Runtime, const ApplyRequest>);
}
