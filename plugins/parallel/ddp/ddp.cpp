// Data parallelism: an axis of the mesh and nothing else. Ranks along it read different samples; their
// gradients are summed by the trainer's rule (every gradient over the ranks that hold no other piece of the
// parameter), and the loss divides by the global number of samples, so no gradient is ever averaged.
//
// Bytes that each of P ranks sends a step, for gradients of G bytes in all: 2 G (P - 1) / P.
#include "kinora/plugin.hpp"
#include "kinora/strategy.hpp"

namespace kinora {

class Ddp final : public Strategy<Tensor> {
 public:
  struct Options {};
  static void describe(Describe<Options>& d) {
    d.name("ddp").help("data parallelism: other samples on other ranks");
  }
  Ddp(const Options&, const Mesh<Tensor>&) {}
  const char* axis() const override { return "dp"; }
};
KINORA_COMPONENT(Ddp)
KINORA_PLUGIN(Ddp)

}  // namespace kinora
