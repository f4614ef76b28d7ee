#include <memory>

#include "kinora/plugin.hpp"
#include "plugins/parallel/stdit-hybrid/hybrid_link.hpp"

namespace kinora {

class StDitHybrid final : public Strategy<at::Tensor> {
 public:
  struct Options {
    int64_t size = 0;
    std::string layout = "hybrid";
  };
  static void describe(Describe<Options>& d) {
    d.name("stdit-hybrid")
        .help(
            "spatial-temporal models: frames are split for spatial attention, positions for temporal "
            "attention, and keys travel around a ring for full attention; two all-to-alls per layer");
    d.option("size", &Options::size).range(0, 4096).unit("ranks").help(
        "number of ranks that share a sequence; 0: all remaining ranks");
    d.option("layout", &Options::layout)
        .choices({"hybrid", "cp", "ulysses"})
        .help(
            "hybrid: as described; cp: a ring of keys for every attention; ulysses: exchanged heads for every "
            "attention");
  }
  StDitHybrid(const Options& o, const Mesh<at::Tensor>& mesh) {
    const auto cp = mesh.group("cp"), tp = mesh.group("tp");
    const auto layout = o.layout == "hybrid" ? StLayout::hybrid
                        : o.layout == "cp"   ? StLayout::cp
                                             : StLayout::ulysses;
    if (cp.size() > 1) link_ = std::make_unique<HybridLink>(cp, tp.rank(), tp.size(), layout);
  }
  const char* axis() const override { return "cp"; }
  const kinora_link* link() override { return link_ ? link_->get() : nullptr; }

 private:
  std::unique_ptr<HybridLink> link_;  // none on one rank
};
KINORA_COMPONENT(StDitHybrid)
KINORA_PLUGIN(StDitHybrid)

}  // namespace kinora
