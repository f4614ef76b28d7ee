#include "core/torch/context/layout.hpp"

#include <algorithm>

#include "core/torch/tensors/torch_guard.hpp"

namespace kinora::core {
namespace {

void require_one_each(const std::vector<AxisUse>& uses) {
  for (size_t i = 0; i < uses.size(); ++i)
    for (size_t j = 0; j < i; ++j) {
      const auto &a = uses[j], &b = uses[i];
      if (a.axis == b.axis)
        raise(KINORA_INVALID,
              "parallel: an axis has one strategy, and {} and {} both cut along {}; leave one out{}",
              a.strategy, b.strategy, a.axis, a.axis == "cp" ? " (cp-2d is Ulysses and ring in one)" : "");
      if (a.size == 0 && b.size == 0)
        raise(KINORA_INVALID,
              "parallel: one strategy takes the ranks that are left, and {} and {} both would; {}",
              a.strategy, b.strategy,
              b.sizable   ? "give " + b.strategy + " a size"
              : a.sizable ? "give " + a.strategy + " a size"
                          : "leave one out");
    }
}

std::string ranks(int64_t n) { return std::to_string(n) + (n == 1 ? " rank" : " ranks"); }

// "tp = 3 or cp = 6": the size that one axis would need if the others stay.
std::string alternatives(const std::vector<AxisUse>& uses, int64_t product, int64_t world) {
  std::string out;
  for (const auto& u : uses) {
    const int64_t others = product / std::max<int64_t>(u.size, 1);
    if (u.size > 0 && u.axis != "cfg" && world % others == 0)  // cfg has at most two predictions
      out += fmt::format(" or {} = {}", u.axis, world / others);
  }
  return out.empty() ? out : "; for " + ranks(world) + " change one, if the model allows it: " + out.substr(4);
}

}  // namespace

MeshOwner::Sizes sizes_of(const std::vector<AxisUse>& uses, int64_t world) {
  require_one_each(uses);
  MeshOwner::Sizes sizes;
  if (world == 1) {
    for (const auto& u : uses) sizes[u.axis] = 1;
    return sizes;
  }
  int64_t product = 1;
  std::string open_axis;
  for (const auto& u : uses) {
    if (u.size == 0) open_axis = u.axis;
    if (u.size > 0) product *= sizes[u.axis] = u.size;
  }
  if (world == kAnyWorld) world = product;
  if (uses.empty() && world > 1)
    raise(KINORA_INVALID,
          "parallel: none of its strategies shares work among ranks, and this launch has {}; add one, such "
          "as ddp, or start 1",
          world);
  const bool fits = open_axis.empty() ? product == world : world % product == 0;
  if (!fits && open_axis.empty())
    raise(KINORA_INVALID,
          "parallel: the sizes of its axes multiply to {}, and this launch has {}; start {}, or add ddp, "
          "which takes what is left of a multiple{}",
          product, ranks(world), product, alternatives(uses, product, world));
  if (!fits)
    raise(KINORA_INVALID,
          "parallel: the sizes of its axes multiply to {}, and the {} of this launch are not a multiple; "
          "start {}{}",
          product, ranks(world), (world / product + 1) * product, alternatives(uses, product, world));
  if (!open_axis.empty()) sizes[open_axis] = world / product;
  return sizes;
}

}  // namespace kinora::core
