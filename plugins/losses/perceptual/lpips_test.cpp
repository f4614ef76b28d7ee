// loss/lpips and score/lpips against the lpips package, on the same random weights.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/io/io.hpp"
#include "core/torch/weights/safe_tensors.hpp"
#include "kinora/abi/loss.h"
#include "plugins/losses/perceptual/trunk.hpp"
#include "tests/support/oracle.hpp"
#include "tests/support/score.hpp"

namespace kinora::perceptual {
namespace {

using at::Tensor;

struct Lpips : test::Instance<kinora_loss> {
  Lpips(const std::string& net, const std::string& weights)
      : Instance("loss/lpips", core::json{{"net", net}, {"weights", weights}}) {}
  Tensor operator()(const Tensor& prediction, const Tensor& target) const {
    const kinora_named in[] = {{"prediction", handle(prediction)}, {"target", handle(target)}};
    kinora_tensor out = nullptr;
    check((*this)->evaluate(self(), in, 2, &out, 1));
    return adopt<Tensor>(out);
  }
};

// A file with the numbers of tests/oracle/numbers.py, without `left_out`.
std::string weights_file(const std::string& net, const std::string& left_out = "") {
  static core::Io io(test::plugins());  // the component reads its file through the host
  core::serve_io(&io);
  core::NamedTensors weights;
  auto shapes = parameters_of(trunk_of(net));
  const auto& channels = trunk_of(net).channels;
  for (size_t i = 0; i < channels.size(); ++i)
    shapes["lin" + std::to_string(i) + ".model.1.weight"] = {1, channels[i], 1, 1};
  for (const auto& [name, shape] : shapes) {
    const Tensor w = test::oracle_weight(name, shape, 1.4);
    if (name != left_out) weights[name] = (name[0] == 'l' ? w.abs() : w).to(at::kFloat);
  }
  const auto path =
      std::filesystem::path(::testing::TempDir()) / ("lpips_" + net + left_out + ".safetensors");
  core::write_tensors(path, weights);
  return path.string();
}

using Case = std::tuple<const char*, at::ScalarType>;
class LpipsOf : public ::testing::TestWithParam<Case> {};

TEST_P(LpipsOf, EqualsThePackageWithItsGradient) {
  const auto [net, dtype] = GetParam();
  const test::Oracle oracle("lpips.safetensors", net);
  const auto file = weights_file(net);
  const Lpips lpips(net, file);
  const auto shape = oracle.exact("grad.prediction").sizes();
  Tensor prediction = (test::numbers("prediction", shape) / 2).to(dtype).requires_grad_();
  const Tensor target = (test::numbers("target", shape) / 2).to(dtype);
  const Tensor loss = lpips(prediction, target);
  (loss * test::numbers("grad.loss", {2}).to(dtype)).sum().backward();
  EXPECT_LT(test::difference(loss, oracle.exact("loss")), dtype == at::kDouble ? 1e-10 : 1e-5);
  EXPECT_LT(test::difference(prediction.grad(), oracle.exact("grad.prediction")),
            dtype == at::kDouble ? 1e-10 : 1e-5);
  EXPECT_EQ(lpips(target, target).abs().max().item<double>(), 0);
  std::filesystem::remove(file);
}
INSTANTIATE_TEST_SUITE_P(Cases, LpipsOf,
                         ::testing::Combine(::testing::Values("vgg", "alex", "squeeze"),
                                            ::testing::Values(at::kDouble, at::kFloat)),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param)) +
                                  c10::toString(std::get<1>(info.param));
                         });

TEST(LpipsGradient, IsFiniteWhereNothingIsSeen) {
  const auto file = weights_file("squeeze");
  Tensor black = at::full({1, 3, 1, 48, 48}, -1.0).requires_grad_();
  Lpips("squeeze", file)(black, at::full({1, 3, 1, 48, 48}, -1.0)).sum().backward();
  EXPECT_TRUE(black.grad().isfinite().all().item<bool>());
  std::filesystem::remove(file);
}

TEST(LpipsScore, IsTheMeanOfTheLoss) {
  const auto file = weights_file("squeeze");
  const Tensor a = test::numbers("prediction", {3, 3, 2, 48, 48}).to(at::kFloat) / 2,
               b = test::numbers("target", {3, 3, 2, 48, 48}).to(at::kFloat) / 2;
  const auto score = test::score("lpips", {{"net", "squeeze"}, {"weights", file}});
  score->update({{"prediction", a}, {"target", b}});
  const Tensor each = Lpips("squeeze", file)(a, b);
  EXPECT_TRUE(at::equal(score->state(), each.to(at::kDouble)));
  EXPECT_NEAR(score->compute().at(0).second, each.mean().item<double>(), 1e-6);
  std::filesystem::remove(file);
}

TEST(LpipsScore, StopsBetweenGroupsOfFrames) {
  const auto file = weights_file("squeeze");
  const Tensor video = at::zeros({1, 3, 80, 48, 48});
  const auto score = test::score("lpips", {{"net", "squeeze"}, {"weights", file}});
  int asked = 0;  // before each group of 32 frames; stopped before the second of three
  kinora_run run{};
  run.struct_size = sizeof run;
  run.self = &asked;
  run.cancelled = [](void* self) -> int32_t {
    return ++*static_cast<int*>(self) < 2 ? KINORA_OK : KINORA_ERROR_CANCELLED;
  };
  try {
    score->update({{"prediction", video}, {"target", video}}, &run);
    ADD_FAILURE() << "the score did not stop";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), KINORA_ERROR_CANCELLED) << e.what();
  }
  EXPECT_EQ(asked, 2);
  EXPECT_EQ(score->state().numel(), 0) << "a call that was stopped adds nothing";
  std::filesystem::remove(file);
}

TEST(Lpips, NamesWhatIsWrong) {
  test::plugins();
  const auto message = [](auto f) -> std::string {
    try {
      f();
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  const auto file = weights_file("squeeze", "lin3.model.1.weight");
  EXPECT_THAT(message([&] { Lpips("squeeze", file); }),
              testing::HasSubstr("no float tensor 'lin3.model.1.weight'"));
  std::filesystem::resize_file(file, 9000);
  EXPECT_THAT(message([&] { Lpips("squeeze", file); }), testing::HasSubstr("is not a safetensors file"));
  std::filesystem::remove(file);
  const auto whole = weights_file("squeeze");
  const Lpips lpips("squeeze", whole);
  EXPECT_THAT(message([&] {
                lpips(at::zeros({1, 3, 1, 48, 48}), at::zeros({1, 3, 2, 48, 48}));
              }),
              testing::HasSubstr("target [1, 3, 2, 48, 48]"));
  std::filesystem::remove(whole);
}

}  // namespace
}  // namespace kinora::perceptual
