// Data parallelism, which is only an axis of the mesh. Ranks along it read different samples; their
// gradients are summed by the trainer's rule (every gradient over the ranks that do not hold another piece of
// the parameter), and the loss divides by the global number of samples, so no gradient is ever averaged.
//
// Bytes that each of P ranks sends per step, for gradients of G bytes in total: 2 G (P - 1) / P.
#include "kinora/plugin.hpp"
#include "kinora/strategy.hpp"

namespace kinora {

class Ddp final : public Strategy<Tensor> {
 public:
  struct Options {};
  static void describe(Describe<Options>& d) {
    d.name("ddp").help("data parallelism: different samples on each rank");
  }
  Ddp(const Options&, const Mesh<Tensor>&) {}
  const char* axis() const override { return "dp"; }
};
KINORA_COMPONENT(Ddp)
KINORA_PLUGIN(Ddp)

}  // namespace kinora
