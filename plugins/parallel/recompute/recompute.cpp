#include "kinora/plugin.hpp"
#include "kinora/strategy.hpp"
#include "plugins/parallel/recompute/recompute_link.hpp"

namespace kinora {

class Recompute final : public Strategy<Tensor> {
 public:
  struct Options {
    std::string mode = "block";
    int64_t every = 1, first = 0, last = -1;
  };
  static void describe(Describe<Options>& d) {
    d.name("recompute")
        .help("activation checkpointing: blocks, or attention alone, run again in the backward");
    d.option("mode", &Options::mode)
        .choices({"block", "selective"})
        .help(
            "block: keep only each block's inputs; selective: keep everything except the intermediate results "
            "of attention");
    d.option("every", &Options::every)
        .range(1, 1e6)
        .unit("blocks")
        .help(
            "distance between blocks that run again; 1: all blocks; 2: every other block, for half of the "
            "savings at half of the cost");
    d.option("first", &Options::first).at_least(0).help("first block that runs again; 0: the embedding");
    d.option("last", &Options::last).at_least(-1).help("last block that runs again; -1: the head");
  }
  Recompute(const Options& o, const Mesh<Tensor>&)
      : link_({o.every, o.first, o.last}, o.mode == "selective") {}
  const kinora_link* link() override { return link_.get(); }

 private:
  RecomputeLink link_;
};
KINORA_COMPONENT(Recompute)
KINORA_PLUGIN(Recompute)

}  // namespace kinora
