#include "kinora/plugin.hpp"
#include "plugins/parallel/fsdp/fsdp_link.hpp"

namespace kinora {

class Fsdp final : public Strategy<at::Tensor> {
 public:
  using Options = fsdp::FsdpLink::Options;
  static void describe(Describe<Options>& d) {
    d.name("fsdp").help(
        "Sharded data parallelism (ZeRO): different samples on each rank, which stores a part of the "
        "optimizer's state, gradients and parameters; combined with ddp (HSDP) the parts are copied along "
        "dp");
    d.option("size", &Options::size)
        .at_least(0)
        .help("number of ranks along the axis fsdp; 0: all remaining ranks");
    d.option("stage", &Options::stage)
        .range(1, 3)
        .help(
            "state that is split; 1: that of the optimizer, 2: also gradients, 3: also parameters, "
            "gathered for a block and freed after it");
    d.option("prefetch", &Options::prefetch)
        .at_least(0)
        .unit("blocks")
        .help("number of blocks whose parameters are gathered ahead, while another block computes");
    d.option("gather_dtype", &Options::gather_dtype)
        .choices(wire::format_names())
        .help(
            "dtype of gathered parameters; auto: that of the parameters. bfloat16 halves their bytes, also "
            "for a model in bfloat16 without recompute, which would keep copies in bfloat16 for the "
            "backward; fp8 takes 1.03 bytes a number, nvfp4 0.56, with an error that the log states");
    d.option("reduce_dtype", &Options::reduce_dtype)
        .choices({"auto", "float32"})
        .help(
            "dtype of the gradients' sums over ranks and microbatches; auto: float64 for float64, else "
            "float32");
  }
  Fsdp(const Options& o, const Mesh<at::Tensor>& mesh)
      : link_(o, mesh), alone_(mesh.group("fsdp").size() == 1) {}
  const char* axis() const override { return "fsdp"; }
  const kinora_link* link() override { return alone_ ? nullptr : link_.get(); }

 private:
  fsdp::FsdpLink link_;
  bool alone_;
};
KINORA_COMPONENT(Fsdp)
KINORA_PLUGIN(Fsdp)

}  // namespace kinora
