// Tensors that `kinora plugins validate` gives to samplers and losses.
#pragma once
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "apps/kinora/validate/trial_call.hpp"
#include "kinora/tensor.hpp"

namespace kinora {

// The tensor with other contents, strides, type or shape, and words for what differs.
inline std::vector<std::pair<std::string, Tensor>> hostile_tensors(const Tensor& usual) {
  std::vector<std::pair<std::string, Tensor>> out;
  out.emplace_back("that is empty", usual.narrow(0, 0, 0));
  out.emplace_back("of no dimension", usual.sum());
  const Tensor twice = op("aten::stack", "", {std::vector<Tensor>{usual, usual}, 1});
  out.emplace_back("that is strided", op("aten::select", "int", {twice, 1, 0}));
  if (usual.dtype() == KINORA_DTYPE_FLOAT64) {
    out.emplace_back("of bf16", usual.to(KINORA_DTYPE_BFLOAT16));
    out.emplace_back("of NaN", full_like(usual, NAN));
  }
  out.emplace_back("of int64", usual.to(KINORA_DTYPE_INT64));
  out.emplace_back("of shape [7, 3]", tensor(std::vector<double>(21, 0.5), {7, 3}).to(usual.dtype()));
  return out;
}

// Runs `use` twice and requires that the second time leaves no handle: the first may fill caches.
template <class Use>
void require_no_handles(core::Tier tier, Use use) {
  if (tier != core::Tier::stable)
    throw Skipped{"a plugin of tier pinned makes handles that the host cannot count"};
  use();
  const int64_t before = watch().tensors;
  use();
  const int64_t left = watch().tensors - before;
  if (left != 0)
    throw Error(KINORA_ERROR_FAILED,
                left > 0 ? fmt::format("{} handles to tensors were taken and never released", left)
                         : fmt::format("{} handles to tensors were released once too often", -left));
}

}  // namespace kinora
