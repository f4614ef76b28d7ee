// Computes the two predictions of classifier-free guidance on two ranks. The strategy is only an axis of the
// mesh: ranks along it hold the same latent; the generator lets each compute its branch, and they exchange
// the predictions.
#include "kinora/plugin.hpp"
#include "kinora/strategy.hpp"

namespace kinora {

class Cfg final : public Strategy<Tensor> {
 public:
  struct Options {
    int64_t size = 2;
  };
  static void describe(Describe<Options>& d) {
    d.name("cfg").help("generate: one rank predicts with the condition, the other without");
    d.option("size", &Options::size)
        .range(1, 2)
        .unit("ranks")
        .help("number of ranks; 1: both predictions on one rank");
  }
  Cfg(const Options&, const Mesh<Tensor>&) {}
  const char* axis() const override { return "cfg"; }
};
KINORA_COMPONENT(Cfg)
KINORA_PLUGIN(Cfg)

}  // namespace kinora
