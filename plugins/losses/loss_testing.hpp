// Common parts of the tests of losses. For tests.
#pragma once
#include <cmath>
#include <string>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "core/torch/network/instances.hpp"
#include "tests/support/oracle.hpp"
#include "tests/support/plugins.hpp"

namespace kinora::test {

inline core::LossInstance loss(const std::string& id, const core::json& options = core::json::object()) {
  const auto component = core::or_throw(plugins().open(id));
  return {component, core::or_throw(core::Options::make(*component.spec, options))};
}

inline double worst(const at::Tensor& a, const at::Tensor& b) {
  EXPECT_EQ(a.sizes(), b.sizes());
  return ((a - b).abs() / b.abs().clamp_min(1)).max().item<double>();
}

// Inputs of losses.safetensors: x0, noise, the model's output, and ln(sigma), one per sample or one per
// frame.
struct LossInputs {
  at::Tensor latent = numbers("latent", {2, 3, 4, 2, 5}) * 0.5, noise = numbers("noise", {2, 3, 4, 2, 5});
  at::Tensor prediction = numbers("prediction", {2, 3, 4, 2, 5}).set_requires_grad(true);
  core::NamedTensors with(const at::Tensor& sigma) const {
    return {{"latent", latent}, {"noise", noise}, {"sigma", sigma}, {"prediction", prediction}};
  }
};

// Gradient of a sample's loss by autograd and by central differences at a few positions of `leaf`, one of
// `in`.
inline void expect_gradient(const core::LossInstance& loss, core::NamedTensors in, const std::string& leaf) {
  at::Tensor x = in.at(leaf).detach().clone().set_requires_grad(true);
  in[leaf] = x;
  loss.evaluate(in).at("loss").sum().backward();
  for (int64_t i = 0; i < x.numel(); i += std::max<int64_t>(1, x.numel() / 5)) {
    const auto at_offset = [&](double by) {
      at::Tensor moved = x.detach().clone();
      moved.view(-1)[i] += by;
      in[leaf] = moved;
      return loss.evaluate(in).at("loss").sum().item<double>();
    };
    const double expected = (at_offset(1e-5) - at_offset(-1e-5)) / 2e-5;
    EXPECT_NEAR(x.grad().reshape(-1)[i].item<double>(), expected, 1e-8 * std::max(1.0, std::abs(expected)))
        << leaf << i;
  }
}

// The sorted levels of n evenly spread uniform numbers are the quantiles (i + 1/2) / n of the distribution
// that `level` draws from.
inline at::Tensor quantiles(const core::LossInstance& loss, int64_t n) {
  return std::get<0>(loss.level((at::arange(n, at::kDouble) + 0.5) / static_cast<double>(n)).sort());
}

}  // namespace kinora::test
