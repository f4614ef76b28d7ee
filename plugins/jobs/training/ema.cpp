#include "plugins/jobs/training/ema.hpp"

#include <algorithm>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

namespace kinora::core {

at::ScalarType state_dtype(const at::Tensor& t) {
  return t.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

Ema::Ema(const std::vector<Leaf>& leaves, double decay, bool rise) : decay_(decay), rise_(rise) {
  for (const auto& leaf : leaves)
    values_.push_back(leaf.frozen ? at::Tensor()
                                  : leaf.tensor.detach().to(state_dtype(leaf.tensor), /*non_blocking=*/false,
                                                            /*copy=*/true));
}

double Ema::next_decay() {
  const double n = static_cast<double>(updates_++);
  return rise_ ? std::min(decay_, (1 + n) / (10 + n)) : decay_;
}

void Ema::update_leaf(const std::vector<Leaf>& leaves, size_t i, double decay) {
  if (!values_[i].defined()) return;
  const at::NoGradGuard guard;
  values_[i].lerp_(leaves[i].tensor.detach().to(values_[i].scalar_type()), 1 - decay);
}

void Ema::update(const std::vector<Leaf>& leaves) {
  const double decay = next_decay();
  for (size_t i = 0; i < values_.size(); ++i) update_leaf(leaves, i, decay);
}

void Ema::swap(std::vector<Leaf>& leaves) {
  const at::NoGradGuard guard;
  for (size_t i = 0; i < values_.size(); ++i) {
    if (!values_[i].defined()) continue;
    const auto kept = values_[i].clone();
    auto weights = leaves[i].tensor.detach();
    values_[i].copy_(weights);
    weights.copy_(kept);
  }
}

std::vector<at::Tensor> Ema::weights(const std::vector<Leaf>& leaves) const {
  auto out = values_;
  for (size_t i = 0; i < out.size(); ++i)
    if (!out[i].defined()) out[i] = leaves[i].tensor;
  return out;
}

}  // namespace kinora::core
