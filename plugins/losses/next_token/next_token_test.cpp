// Cross entropy of codes against PyTorch's in Python.
#include "kinora/aten.hpp"
#include "plugins/losses/loss_testing.hpp"
#include "tests/support/worst.hpp"

namespace kinora {
namespace {

using core::json;
const char* const kId = "loss/next-token";

at::Tensor logits() { return 3 * test::numbers("logits", {3, 12, 11}); }

core::NamedTensors inputs(const test::Oracle& o, const at::Tensor& output) {
  core::NamedTensors in{{"output", output}, {"codes", o.exact("codes").to(at::kInt)}};
  if (o.has("mask")) in["mask"] = o.exact("mask").to(at::kBool);
  return in;
}

TEST(NextTokenLoss, EqualsTorch) {
  double error = 0;
  for (int i = 0; i < 5; ++i) {
    const test::Oracle o("losses.safetensors", "token" + std::to_string(i));
    const at::Tensor output = logits().set_requires_grad(true);
    const auto made = test::loss(kId, o.options).evaluate(inputs(o, output));
    made.at("loss").sum().backward();
    for (const char* name : {"loss", "nll", "accuracy"}) {
      EXPECT_LT(test::worst(made.at(name).detach(), o.exact(name)), 1e-12) << i << name;
      error = test::worse(error, test::worst(made.at(name).detach(), o.exact(name)));
    }
    EXPECT_LT(test::worst(output.grad(), o.exact("grad.output")), 1e-12) << i;
  }
  RecordProperty("worst", std::to_string(error * 1e12) + "e-12");
}

TEST(NextTokenLoss, EvenLogitsCostTheLogarithmOfTheVocabulary) {
  const auto made = test::loss(kId).evaluate({{"output", at::zeros({2, 6, 64000}, at::kFloat)},
                                              {"codes", at::randint(64000, {2, 1, 2, 3}, at::kInt)}});
  EXPECT_NEAR(made.at("loss")[0].item<double>(), std::log(64000.0), 1e-5);
  EXPECT_EQ(made.at("loss").sizes(), at::IntArrayRef({2}));
  EXPECT_TRUE(at::equal(made.at("loss"), made.at("nll")));
}

TEST(NextTokenLoss, CertaintyCostsNothing) {
  const at::Tensor codes = at::randint(11, {3, 12}, at::kLong);
  const auto made =
      test::loss(kId).evaluate({{"output", 100 * at::one_hot(codes, 11).to(at::kDouble)}, {"codes", codes}});
  EXPECT_LT(made.at("loss").max().item<double>(), 1e-12);
  EXPECT_EQ(made.at("accuracy").min().item<double>(), 1);
}

TEST(NextTokenLoss, MaskedCodesDoNotCount) {
  const auto loss = test::loss(kId, {{"z_loss", 0.1}, {"label_smoothing", 0.1}});
  const at::Tensor codes = at::zeros({3, 12}, at::kLong), mask = at::ones({3, 12}, at::kBool);
  mask.narrow(1, 5, 7).fill_(false);
  at::Tensor other = logits();
  other.narrow(1, 5, 7) += 7;
  const auto of = [&](const at::Tensor& output) {
    return loss.evaluate({{"output", output}, {"codes", codes}, {"mask", mask}}).at("loss");
  };
  EXPECT_TRUE(at::equal(of(logits()), of(other)));
}

TEST(NextTokenLoss, GradientIsThatOfFiniteDifferences) {
  const test::Oracle o("losses.safetensors", "token3");
  test::expect_gradient(test::loss(kId, o.options), inputs(o, logits()), "output");
}

TEST(NextTokenLoss, KeepsLowPrecisionOutOfItsStatistics) {
  const at::Tensor codes = at::zeros({3, 12}, at::kLong), low = logits().to(at::kBFloat16);
  const auto loss = test::loss(kId);
  const at::Tensor made = loss.evaluate({{"output", low}, {"codes", codes}}).at("loss");
  EXPECT_EQ(made.scalar_type(), at::kFloat);
  EXPECT_LT(test::worst(made.to(at::kDouble),
                        loss.evaluate({{"output", low.to(at::kDouble)}, {"codes", codes}}).at("loss")),
            1e-6);
}

TEST(NextTokenLoss, NamesWhatIsWrong) {
  const auto message = [](const core::NamedTensors& in, const json& o = json::object()) -> std::string {
    try {
      test::loss(kId, o).evaluate(in);
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  const at::Tensor codes = at::zeros({3, 11}, at::kLong);
  EXPECT_NE(message({{"output", logits()}, {"codes", codes}}).find("codes holds 33 numbers"),
            std::string::npos);
  EXPECT_NE(message({{"output", logits()[0]}, {"codes", codes}}).find("must be logits [B, N, V]"),
            std::string::npos);
  EXPECT_NE(message({{"output", logits()}, {"codes", at::zeros({3, 12}, at::kLong)}}, {{"shift", 12}})
                .find("shift = 12"),
            std::string::npos);
  EXPECT_THROW(test::loss(kId).level(at::rand({2}, at::kDouble)), Error);
}

}  // namespace
}  // namespace kinora
