// Ring attention (Liu et al. 2023, arXiv 2310.01889): tokens are split over the ranks and keys travel from
// neighbour to neighbour; for the bytes see ring_attention.hpp. Any number of heads. Shared keys (text) stay.
#include <optional>

#include "kernels/torch/attention_block.hpp"
#include "kinora/plugin.hpp"
#include "kinora/ring_split.hpp"

namespace kinora {

class RingLink final : public RingSplit {
 public:
  RingLink(const Mesh<at::Tensor>& mesh, const Options& options)
      : RingSplit("cp-ring", mesh.group("cp"), mesh.group("cp"), mesh.group("tp").size(), options) {
    skip_inherited<RingLink>();
  }

  at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                       const kinora_attention& how) override {
    if (passes(how)) return next.attention(q, k, v, how);
    kinora_attention of_all = how;
    of_all.q_table = handle(layout(how.q_seq).table);
    of_all.k_table = handle(layout(how.kv_seq).table);
    return ring_.attend<AttentionKernel>(*this, q, k, v, of_all);
  }
};

class Ring final : public Strategy<at::Tensor> {
 public:
  struct Options : RingSplit::Options {
    int64_t size = 0;
  };
  static void describe(Describe<Options>& d) {
    d.name("cp-ring").help(
        "context parallelism by a ring: each rank has some tokens of a sequence, and keys travel around the "
        "ring during attention; one block of keys per rank, any number of heads");
    d.option("size", &Options::size)
        .range(0, 65536)
        .unit("ranks")
        .help("number of ranks that share a sequence; 0: all remaining ranks");
    RingSplit::describe(d);
  }
  Ring(const Options& o, const Mesh<at::Tensor>& mesh) {
    if (mesh.group("cp").size() > 1) link_.emplace(mesh, o);
  }
  const char* axis() const override { return "cp"; }
  const kinora_link* link() override { return link_ ? link_->get() : nullptr; }

 private:
  std::optional<RingLink> link_;
};
KINORA_COMPONENT(Ring)
KINORA_PLUGIN(Ring)

}  // namespace kinora
