// loss/lpips and score/lpips: the learned perceptual distance (distance.hpp) to train on, and as a measure.
#include <ATen/ATen.h>

#include "kinora/aten.hpp"
#include "kinora/loss.hpp"
#include "kinora/plugin.hpp"
#include "kinora/score.hpp"
#include "plugins/losses/perceptual/distance.hpp"

namespace kinora::perceptual {

using at::Tensor;

namespace {

[[noreturn]] void no_noise() {
  throw Error(KINORA_ERROR_UNSUPPORTED, "loss/lpips draws no noise; it compares videos");
}

}  // namespace

class Lpips final : public Loss<at::Tensor> {
 public:
  using Options = LpipsOptions;
  static void describe(Describe<Options>& d) {
    d.name("lpips").help("LPIPS: distance of two videos' frames in the features of a trained network");
    describe_lpips(d);
    d.output("loss", "[B]", "float", "mean over a sample's frames");
  }
  explicit Lpips(const Options& o) : distance_(o) {}

  // This loss has no noise.
  Tensor noisy(const Tensor&, const Tensor&, const Tensor&) override { no_noise(); }
  Input input(const Tensor&, const Tensor&) override { no_noise(); }
  Tensor estimate(const Tensor&, const Tensor&, const Tensor&) override { no_noise(); }
  std::vector<Tensor> evaluate(const Named<Tensor>& in) override {
    return {distance_(in["prediction"], in["target"])};
  }

 private:
  LpipsDistance distance_;
};
KINORA_COMPONENT(Lpips)

class LpipsScore final : public MeanScore<at::Tensor> {
 public:
  using Options = LpipsOptions;
  static void describe(Describe<Options>& d) {
    d.name("lpips").help("LPIPS: distance of two videos' frames in the features of a trained network");
    describe_lpips(d);
    d.output("lpips", "[]", "float64", "mean over videos");
  }
  explicit LpipsScore(const Options& o) : distance_(o) {}

  Tensor each(const Run& run, const Named<Tensor>& in) override {
    return distance_(in["prediction"], in["target"], &run);
  }

 private:
  LpipsDistance distance_;
};
KINORA_COMPONENT(LpipsScore)

KINORA_PLUGIN(Lpips, LpipsScore)

}  // namespace kinora::perceptual
