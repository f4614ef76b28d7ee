#include "apps/bench/bench_step.hpp"

#include <map>

#include <ATen/ATen.h>

#include "kinora/aten.hpp"

namespace kinora::core {

using at::Tensor;

BenchStep::BenchStep(Runtime& runtime, const std::string& model, const json& options, const Frames& rule,
                     const BenchStrategy& strategy, Tensor text)
    : strategy_(strategy),
      component_(or_throw(runtime.registry().open("model/" + model))),
      network_(component_, or_throw(Options::make(*component_.spec, options)), ChainOptions{.frames = rule},
               strategy.links()),
      text_(std::move(text)) {}

void BenchStep::operator()(const Tensor& latent, int64_t from, int64_t micro) {
  for (auto& leaf : network_.chain().leaves())
    if (auto& gradient = leaf.tensor.mutable_grad(); gradient.defined()) gradient.zero_();
  std::map<int64_t, Tensor> losses;
  const auto forward = [&](kinora_pass pass) {
    pass.struct_size = sizeof pass;
    network_.chain().begin(pass);
    try {
      const Tensor out =
          network_.forward({{"latent", latent}, {"timestep", at::full({1}, 0.5)}, {"text", text_}}).at(0);
      losses[pass.micro] = out.narrow(2, from, out.size(2) - from).square().mean();
      return true;
    } catch (const Stop&) {
      return false;
    }
  };
  strategy_.step(
      {micro, forward, [&](const kinora_pass& pass) { losses.extract(pass.micro).mapped().backward(); }});
  network_.chain().reduce();
}

}  // namespace kinora::core
