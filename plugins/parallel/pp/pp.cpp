#include <optional>

#include "kinora/plugin.hpp"
#include "plugins/parallel/pp/pipeline_link.hpp"

namespace kinora {

class Pp final : public Strategy<at::Tensor> {
 public:
  struct Options {
    int64_t size = 0, stages_a_rank = 0;
    std::string schedule = "1f1b", conditioning = "recompute", balance = "cost";
    std::vector<int64_t> blocks;
  };
  static void describe(Describe<Options>& d) {
    d.name("pp").help(
        "Pipeline parallelism: some of the blocks on each rank; microbatches (accumulate) follow each other "
        "through them");
    d.option("size", &Options::size)
        .at_least(0)
        .help("number of ranks along the axis pp; 0: all remaining ranks");
    d.option("schedule", &Options::schedule)
        .choices({"gpipe", "1f1b", "interleaved"})
        .help(
            "gpipe: all forwards, then all backwards; 1f1b: alternating, with fewer microbatches in memory; "
            "interleaved: alternating, over several stages per rank, with less waiting");
    d.option("virtual", &Options::stages_a_rank)
        .at_least(0)
        .unit("stages")
        .help("number of stages per rank, for the interleaved schedule; 0: 2 for interleaved, else 1");
    d.option("conditioning", &Options::conditioning)
        .choices({"recompute", "send"})
        .help("results computed outside blocks: recomputed on every stage, or sent from the first one");
    d.option("balance", &Options::balance)
        .choices({"cost", "count"})
        .help("stages of equal cost, by the size of the blocks' matrices, or of equal numbers of blocks");
    d.option("blocks", &Options::blocks)
        .help("number of blocks of each stage, including embedding and head; empty: by balance");
  }
  Pp(const Options& o, const Mesh<at::Tensor>& mesh) : schedule_(o.schedule) {
    const bool interleaved = o.schedule == "interleaved";
    const int64_t per_rank = o.stages_a_rank > 0 ? o.stages_a_rank : interleaved ? 2 : 1;
    if ((per_rank > 1) != interleaved)
      throw Error(KINORA_ERROR_INVALID,
                  "pp: virtual = " + std::to_string(per_rank) + " with schedule '" + o.schedule +
                      "'; several stages a rank are for 'interleaved', one for 'gpipe' and '1f1b'");
    const Group<at::Tensor> group = mesh.group("pp");
    if (group.size() == 1) return;
    pipe_ = {group.size(), group.rank(), per_rank};
    link_.emplace(group, pipe_,
                  pp::PipelineLink::How{o.conditioning == "send", o.balance == "cost", o.blocks});
  }
  const char* axis() const override { return "pp"; }
  const kinora_link* link() override { return link_ ? link_->get() : nullptr; }

  void step(const Step& step, const Run&) override {
    const auto actions = pp::schedule(link_ ? schedule_ : "1f1b", pipe_, step.n_microbatches());
    if (link_) link_->reset();
    for (const auto& a : actions) {
      if (!a.forward) {
        link_ ? link_->backward(step, a.stage, a.micro) : step.backward(a.stage, a.micro);
      } else if (step.forward(a.stage, a.micro) != (a.stage + 1 == pipe_.stages())) {
        throw Error(KINORA_ERROR_FAILED,
                    "pp: stage " + std::to_string(a.stage) + " of " + std::to_string(pipe_.stages()) +
                        " ended at the wrong block: does the model call every block in order?");
      }
    }
    if (link_) link_->reset();
  }

 private:
  std::string schedule_;
  pp::Pipe pipe_;
  std::optional<pp::PipelineLink> link_;
};
KINORA_COMPONENT(Pp)
KINORA_PLUGIN(Pp)

}  // namespace kinora
