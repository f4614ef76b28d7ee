// Memory of the fullest rank of a layout, tensor by tensor: BF16 weights and activations, float32 gradients,
// master weights and Adam's moments; 18 bytes a parameter before anything is cut.
#pragma once
#include "apps/planner/layout.hpp"

namespace kinora::core::plan {

struct Held {
  const char* name;
  double bytes;
};

std::vector<Held> held(const Layout&, const Problem&);
double total(const std::vector<Held>&);
// Bytes of a rank that a plan may use.
inline double room(const Problem& p) { return p.cluster.gpu.memory * p.efficiency.usable; }

// Sets the least recomputation with which the layout fits: none, a quarter, half or all of the blocks.
// Returns false, with all of them, if it does not fit even then.
bool lighten(Layout&, const Problem&);

// Number of layer chunks (of a virtual stage each) whose activations the first stage holds at once.
int64_t chunks_in_flight(const Layout&, int64_t microbatches);

}  // namespace kinora::core::plan
