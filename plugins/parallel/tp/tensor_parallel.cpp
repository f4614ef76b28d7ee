#include <optional>

#include "kinora/plugin.hpp"
#include "kinora/strategy.hpp"
#include "plugins/parallel/tp/tensor_link.hpp"

namespace kinora {

class TensorParallel final : public Strategy<at::Tensor> {
 public:
  struct Options {
    int64_t size = 0;
  };
  static void describe(Describe<Options>& d) {
    d.name("tp").help(
        "tensor parallelism with sequence parallelism: some heads and channels of every layer on each rank, "
        "and some tokens between the layers; size divides the heads, of keys too, and the MLP's channels");
    d.option("size", &Options::size)
        .range(0, 65536)
        .unit("ranks")
        .help("number of ranks that share a layer, best inside a node; 0: all remaining ranks");
  }
  TensorParallel(const Options&, const Mesh<at::Tensor>& mesh) {
    const auto group = mesh.group("tp");
    if (group.size() > 1) link_.emplace(group);
  }
  const char* axis() const override { return "tp"; }
  const kinora_link* link() override { return link_ ? link_->get() : nullptr; }

 private:
  std::optional<TensorLink> link_;
};
KINORA_COMPONENT(TensorParallel)
KINORA_PLUGIN(TensorParallel)

}  // namespace kinora
