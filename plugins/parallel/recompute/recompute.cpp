#include "kinora/plugin.hpp"
#include "kinora/strategy.hpp"
#include "plugins/parallel/recompute/recompute_link.hpp"

namespace kinora {

class Recompute final : public Strategy<Tensor> {
 public:
  struct Options {
    std::string mode = "block";
  };
  static void describe(Describe<Options>& d) {
    d.name("recompute").help("activation checkpointing: blocks run again in the backward");
    d.option("mode", &Options::mode).choices({"block"}).help("block: keep each block's inputs only");
  }
  Recompute(const Options&, const Mesh<Tensor>&) {}
  const kinora_link* link() override { return link_.get(); }

 private:
  RecomputeLink link_;
};
KINORA_COMPONENT(Recompute)
KINORA_PLUGIN(Recompute)

}  // namespace kinora
