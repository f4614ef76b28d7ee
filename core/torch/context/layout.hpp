// Computes the sizes of a mesh's axes from a job's strategies, and checks which compositions are legal.
#pragma once
#include <string>
#include <vector>

#include "core/torch/context/mesh.hpp"

namespace kinora::core {

// A strategy that splits along an axis; size 0: takes the remaining ranks. sizable: it has an option `size`.
struct AxisUse {
  std::string strategy, axis;
  int64_t size = 0;
  bool sizable = true;
};

// Any number of ranks: as few as the sizes require, so that errors in them show at every world size.
constexpr int64_t kAnyWorld = 0;

// Each axis has at most one strategy, at most one strategy takes the remaining ranks, and the product of all
// sizes is the world size. One process computes the same as any layout: in a world of one every size is 1.
// Throws Error(KINORA_INVALID) with the broken rule and the nearest sizes that satisfy it.
MeshOwner::Sizes sizes_of(const std::vector<AxisUse>& uses, int64_t world);

}  // namespace kinora::core
