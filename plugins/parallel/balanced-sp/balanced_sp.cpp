#include <optional>

#include "kinora/plugin.hpp"
#include "plugins/parallel/balanced-sp/balanced_link.hpp"

namespace kinora {

class BalancedSp final : public Strategy<at::Tensor> {
 public:
  struct Options {
    int64_t size = 0;
    std::string layout = "balanced";
  };
  static void describe(Describe<Options>& d) {
    d.name("balanced-sp")
        .help(
            "sequence parallelism for teacher forcing: the clean and the noisy tokens of one time span on one "
            "rank, heads exchanged for attention");
    d.option("size", &Options::size)
        .range(0, 65536)
        .unit("ranks")
        .help("number of ranks that share a sequence; 0: all remaining ranks");
    d.option("layout", &Options::layout)
        .choices({"balanced", "naive"})
        .help(
            "split of the tokens; naive: the clean and then the noisy sequence in equal runs, so that some "
            "ranks have no loss");
  }
  BalancedSp(const Options& o, const Mesh<at::Tensor>& mesh) {
    if (const auto group = mesh.group("cp"); group.size() > 1)
      link_.emplace(group, mesh.group("tp").size(), o.layout == "naive");
  }
  const char* axis() const override { return "cp"; }
  const kinora_link* link() override { return link_ ? link_->get() : nullptr; }

 private:
  std::optional<BalancedLink> link_;  // none on one rank
};
KINORA_COMPONENT(BalancedSp)
KINORA_PLUGIN(BalancedSp)

}  // namespace kinora
