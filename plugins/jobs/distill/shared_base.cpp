#include "plugins/jobs/distill/shared_base.hpp"

#include <algorithm>

#include <ATen/ATen.h>

#include "core/torch/tensors/torch_guard.hpp"

namespace kinora::core {
namespace {

std::vector<at::Tensor> frozen_of(Network& network) {
  std::vector<at::Tensor> out;
  for (const auto& leaf : network.chain().leaves())
    if (leaf.frozen) out.push_back(leaf.tensor);
  return out;
}

}  // namespace

// set_data() replaces what all handles of a tensor refer to: links that own a leaf read the shared one, too.
void share_base(Network& base, Network& other) {
  const auto from = frozen_of(base), to = frozen_of(other);
  const auto alike = [](const at::Tensor& a, const at::Tensor& b) { return a.sizes() == b.sizes(); };
  if (!std::equal(from.begin(), from.end(), to.begin(), to.end(), alike))
    raise(KINORA_ERROR_INVALID,
          "the frozen weights of two networks cannot be shared, because they are divided differently");
  for (size_t i = 0; i < to.size(); ++i) to[i].set_data(from[i]);
}

}  // namespace kinora::core
