// One process: no axis, no link. The reference for every other strategy.
#include "kinora/plugin.hpp"
#include "kinora/strategy.hpp"

namespace kinora {

class Single final : public Strategy<Tensor> {
 public:
  struct Options {};
  static void describe(Describe<Options>& d) { d.name("single").help("one process without splitting"); }
  Single(const Options&, const Mesh<Tensor>&) {}
};
KINORA_COMPONENT(Single)
KINORA_PLUGIN(Single)

}  // namespace kinora
