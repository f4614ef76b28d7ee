// Entry point of the library: registers the tensor interface, and offers its service.
#include "core/torch/open.hpp"

#include <cstdlib>
#include <malloc.h>

#include "core/plugin/host.hpp"
#include "core/torch/apply/tools.hpp"
#include "core/torch/chain/plain_chain.hpp"
#include "core/torch/network/fitting.hpp"
#include "core/torch/tensors/noise.hpp"
#include "core/torch/tensors/tensors_api.hpp"
#include "core/torch/tensors/torch_guard.hpp"
#include "host/apply/apply.hpp"
#include "kinora/abi/plugin.h"
#include "kinora/aten.hpp"

namespace kinora::core {
namespace {

// Its functions throw libtorch's errors as kinora::Error, without their stack traces.
class Tensors final : public TensorService {
 public:
  int32_t noise(uint64_t seed, int64_t first_sample, const char* key, kinora_tensor like,
                kinora_tensor* out) const override {
    return torch_guard([&] { *out = give(sample_noise(borrow<at::Tensor>(like), seed, first_sample, key)); });
  }
  json fitted(const Component& component, const json& given,
              const std::vector<std::filesystem::path>& weights) const override {
    return with_plain_errors([&] { return with_fitting_size(component, given, weights); });
  }
  std::unique_ptr<PlainChain> plain_chain(const PlainChainOptions& options,
                                          const std::vector<const kinora_link*>& links) const override {
    return make_plain_chain(options, links);
  }
  ApplyResult apply(Runtime& runtime, const ApplyRequest& request) const override {
    return with_plain_errors([&] { return apply_tensors(runtime, request); });
  }
  json convert(Runtime& runtime, const json& request) const override {
    return with_plain_errors([&] { return convert_weights(runtime, request); });
  }
  json inspect(Runtime& runtime, const json& request) const override {
    return with_plain_errors([&] { return inspect_component(runtime, request); });
  }
};

// Tensors come and go with every layer. By default glibc requests each large one from the kernel again and
// returns it, and its pages are zeroed every time: 3 to 14 % of a training step in three pairs of runs.
// Environment variables that tune the allocator take precedence.
void keep_freed_memory() {
  if (std::getenv("MALLOC_TRIM_THRESHOLD_") || std::getenv("MALLOC_MMAP_THRESHOLD_")) return;
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 256 << 20);
}

}  // namespace

const TensorService& torch_tensors() {
  static const Tensors service;
  return service;
}

}  // namespace kinora::core

extern "C" KINORA_EXPORT void kinora_torch_open(const kinora_host* host) {
  using namespace kinora::core;
  kinora::g_host = host;
  keep_freed_memory();
  register_interface(KINORA_INTERFACE_TENSORS, KINORA_ABI_MINOR, tensors_api_table());
  offer_tensors(torch_tensors());
}
