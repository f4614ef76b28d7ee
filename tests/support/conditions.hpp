// Properties of every denoiser's conditions.
#pragma once
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "kinora/abi/model.h"
#include "tests/support/oracle.hpp"
#include "tests/support/worst.hpp"

namespace kinora::test {

// Text of zeros, masked text and no text give the same unconditional prediction. `in` has
// `text` [B, L, D].
template <class Model>
void expect_no_text_is_unconditional(Model& model, core::NamedTensors in) {
  const at::Tensor with = model(in), text = in.at("text");
  auto masked = in, absent = in;
  in["text"] = at::zeros_like(text);
  const at::Tensor zero = model(in);
  masked["text_mask"] = at::zeros({text.size(0), text.size(1)}, at::kBool);
  absent.erase("text");
  EXPECT_GT(difference(with, zero), 1e-3);
  EXPECT_LT(difference(model(masked), zero), 1e-14);
  EXPECT_LT(difference(model(absent), zero), 1e-14);
}

// Equal levels for all `rows` frames or tokens give the result of one level per sample, to the last bit
// except for the rounding of matrix products with more rows. Different levels give another result. `in` has
// `timestep` [B].
template <class Model>
void expect_equal_levels_are_one(Model& model, const core::NamedTensors& in, std::vector<int64_t> rows) {
  const at::Tensor one = model(in), level = in.at("timestep");
  double worst = 0;
  for (const int64_t R : rows) {
    auto many = in;
    many["timestep"] = level.unsqueeze(1).expand({-1, R}).contiguous();
    worst = test::worse(worst, difference(model(many), one));
    EXPECT_LT(worst, 1e-14) << R;
    if (R == 1) continue;
    many["timestep"].select(1, R - 1).add_(1);
    EXPECT_GT(difference(model(many), one), 1e-4) << R;
  }
  std::printf("          worst relative difference %.2g\n", worst);
}

// A new signal adds nothing at first or when it is left out, so a trained model can get one more. make: from
// {"signals": [...]}; in: without it.
template <class Make>
void expect_signal_adds_nothing_at_first(Make make, core::NamedTensors in, const std::string& name,
                                         const at::Tensor& given) {
  auto model = make(core::json{{"signals", {name + ":" + std::to_string(given.size(-1))}}});
  for (auto& leaf : model.chain().leaves())
    if (leaf.name.rfind("signals.", 0) != 0) leaf.tensor.detach().normal_(0, 0.2);
  const at::Tensor without = model(in);
  in[name] = given;
  EXPECT_EQ(difference(model(in), without), 0);
  model.randomise();
  EXPECT_GT(difference(model(in), without), 1e-3);
}

// A case from tests/data/oracle/conditions.safetensors: diffusers' model with signals and levels.
class ConditionCase : public ::testing::TestWithParam<std::tuple<const char*, at::ScalarType>> {
 protected:
  std::string name() const { return std::get<0>(GetParam()); }
  at::ScalarType dtype() const { return std::get<1>(GetParam()); }

  void expect_equal(const char* id, const std::vector<std::vector<const kinora_link*>>& chains) const {
    const double bound = dtype() == at::kDouble ? 1e-10 : 1e-5;
    double worst = 0;
    for (const auto& links : chains) {
      OnChain<kinora_model> model(id, oracle.options.at("options"), dtype(), links);
      model.fill();
      const auto in = inputs();
      const at::Tensor output = model.forward(in)[0];
      const auto compare = [&](const at::Tensor& found, const std::string& what) {
        const double apart = difference(found, oracle.exact(what));
        EXPECT_LT(apart, bound) << what;
        worst = test::worse(worst, apart);
      };
      compare(output, "output");
      output.backward(numbers(name() + ".grad_output", output.sizes()).to(dtype()));
      for (const auto& [key, t] : in)
        if (t.requires_grad()) compare(t.grad(), "grad." + key);
      auto wanted = oracle.under("grad.param.");
      EXPECT_GE(wanted.size(), 5u);
      for (const auto& leaf : model.chain().leaves()) {
        ASSERT_TRUE(leaf.tensor.grad().defined()) << leaf.name;
        if (wanted.erase(leaf.name)) compare(leaf.tensor.grad(), "grad.param." + leaf.name);
      }
      EXPECT_TRUE(wanted.empty()) << wanted.begin()->first;
    }
    std::printf("          worst relative difference %.2g\n", worst);
  }

 private:
  core::NamedTensors inputs() const {
    core::NamedTensors in;
    for (const auto& [key, shape] : oracle.options.at("shapes").items()) {
      at::Tensor t = numbers(name() + "." + key, shape.get<std::vector<int64_t>>());
      if (key == "text_mask") t = t > -0.5;
      if (key == "condition_mask") t = (t > 0).to(at::kDouble);
      if (key == "timestep" && name().rfind("wan", 0) == 0) t = 500 + 280 * t;
      in[key] = key == "timestep" || !t.is_floating_point() ? t : t.to(dtype());
      if (oracle.has("grad." + key)) in[key].requires_grad_();
    }
    return in;
  }

  test::Oracle oracle{"conditions.safetensors", std::get<0>(GetParam())};
};

inline std::string condition_case_name(const ::testing::TestParamInfo<ConditionCase::ParamType>& info) {
  const std::string name = std::get<0>(info.param);
  return name.substr(name.find('.') + 1) + c10::toString(std::get<1>(info.param));
}

}  // namespace kinora::test
