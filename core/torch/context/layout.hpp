// The sizes of a mesh's axes from what a job's strategies ask for, and which compositions are legal.
#pragma once
#include <string>
#include <vector>

#include "core/torch/context/mesh.hpp"

namespace kinora::core {

// A strategy that cuts along an axis; size 0: takes the ranks that are left. sizable: it has an option
// `size`.
struct AxisUse {
  std::string strategy, axis;
  int64_t size = 0;
  bool sizable = true;
};

// Any number of ranks: as few as the sizes ask for, to see what is wrong with them at every number.
constexpr int64_t kAnyWorld = 0;

// An axis has one strategy, one of them at most takes what is left, and the product of all sizes is the
// world. One process computes what any layout does: in a world of one every size is 1. Throws
// Error(KINORA_INVALID) with the rule that is broken and the nearest sizes that keep it.
MeshOwner::Sizes sizes_of(const std::vector<AxisUse>& uses, int64_t world);

}  // namespace kinora::core
