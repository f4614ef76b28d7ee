// optimizer/adamw: Loshchilov and Hutter 2019 (arXiv 1711.05101), algorithm 2, bias correction as in Adam
// (Kingma and Ba 2015, arXiv 1412.6980).
#include "kinora/plugin.hpp"
#include "plugins/optimizers/adamw/adamw_step.hpp"

namespace kinora::adamw {

class AdamW final : public Optimizer<at::Tensor> {
 public:
  using Options = Constants;
  static void describe(Describe<Options>& d) {
    d.name("adamw").help("AdamW: decoupled weight decay, two moments");
    Constants::describe(d);
    d.output("first", "[n]", "float", "moment: a moving average of gradients");
    d.output("second", "[n]", "float", "moment: a moving average of their squares");
  }
  explicit AdamW(const Options& o) : constants_(o) {}

  Plan plan(const kinora_param_spec&) override { return {.states = 2}; }
  void update(const Update<at::Tensor>& u) override { step(u, constants_); }

 private:
  Constants constants_;
};

KINORA_COMPONENT(AdamW)

}  // namespace kinora::adamw
