// loss/dmd against its formula in plain loops, and its derivative.
#include <cmath>

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include "plugins/losses/loss_testing.hpp"
#include "tests/support/refusal.hpp"

namespace kinora {
namespace {

using at::Tensor;
using core::json;
using testing::HasSubstr;
const char* const kId = "loss/dmd";
const json kByChunk = {{"normalizer", "chunk"}, {"chunk", 2}};

struct Given {
  Tensor x, real, fake;
  explicit Given(int64_t frames, at::ScalarType dtype = at::kDouble)
      : x(drawn("x", frames, dtype)),
        real(drawn("real", frames, dtype)),
        fake(drawn("fake", frames, dtype)) {}
  core::NamedTensors named() const { return {{"x", x}, {"real", real}, {"fake", fake}}; }
  static Tensor drawn(const std::string& name, int64_t frames, at::ScalarType dtype) {
    return test::numbers("dmd." + name, {2, frames, 3, 4, 5}).to(dtype);
  }
};

// Calls f(sample, first frame, number of frames, whether n is 1) for each part with a normaliser of its own.
template <class F>
void each_part(int64_t frames, int64_t chunk, F f) {
  for (int64_t b = 0; b < 2; ++b) {
    const int64_t lone = chunk > 1 && frames % chunk == 1 ? 1 : 0;
    if (lone) f(b, 0, 1, true);
    for (int64_t t = lone; t < frames; t += chunk) f(b, t, chunk, false);
  }
}

// (fake - real) / n, element by element in double. chunk: the frames of a part; all of them for a sample's.
Tensor by_hand(const Given& in, int64_t chunk) {
  const int64_t frames = in.x.size(1), of_frame = 3 * 4 * 5;
  const auto values = [](const Tensor& t) { return t.to(at::kDouble).contiguous(); };
  const Tensor x = values(in.x), real = values(in.real), fake = values(in.fake), out = at::zeros_like(x);
  each_part(frames, chunk, [&](int64_t b, int64_t first, int64_t count, bool is_one) {
    const int64_t begin = (b * frames + first) * of_frame, end = begin + count * of_frame;
    double n = 0;
    for (int64_t i = begin; i < end; ++i)
      n += std::abs(x.data_ptr<double>()[i] - real.data_ptr<double>()[i]) / static_cast<double>(end - begin);
    if (is_one) n = 1;
    for (int64_t i = begin; i < end; ++i)
      out.data_ptr<double>()[i] = (fake.data_ptr<double>()[i] - real.data_ptr<double>()[i]) / n;
  });
  return out;
}

void expect_formula(const json& options, int64_t frames, int64_t chunk) {
  for (const auto& [dtype, bound] : {std::pair{at::kDouble, 1e-12}, {at::kFloat, 1e-6}}) {
    const Given in(frames, dtype);
    const auto made = test::loss(kId, options).evaluate(in.named());
    const Tensor want = by_hand(in, chunk);
    EXPECT_LT(test::worst(made.at("grad").to(at::kDouble), want), bound) << options << frames;
    EXPECT_LT(test::worst(made.at("loss").to(at::kDouble), 0.5 * want.square().mean({1, 2, 3, 4})), bound)
        << options;
  }
}

TEST(Dmd, EqualsTheFormula) {
  expect_formula(json::object(), 4, 4);
  expect_formula(kByChunk, 4, 2);
  expect_formula({{"normalizer", "chunk"}, {"chunk", 1}}, 3, 1);
}

// LongLive 2.0 does not normalise the picture that a video begins with.
TEST(Dmd, ALoneFirstFrameIsNotNormalised) {
  expect_formula(kByChunk, 5, 2);
  expect_formula(kByChunk, 1, 2);
  const Given in(5);
  const Tensor grad = test::loss(kId, kByChunk).evaluate(in.named()).at("grad");
  EXPECT_TRUE(at::equal(grad.narrow(1, 0, 1), (in.fake - in.real).narrow(1, 0, 1)));
}

TEST(Dmd, DerivativeByXIsTheGradientOverItsElements) {
  for (const json& options : {json::object(), kByChunk}) {
    Given in(4);
    for (Tensor* t : {&in.x, &in.real, &in.fake}) t->set_requires_grad(true);
    const auto made = test::loss(kId, options).evaluate(in.named());
    made.at("loss").sum().backward();
    EXPECT_LT(test::worst(in.x.grad(), made.at("grad") / (4 * 3 * 4 * 5)), 1e-15);
    EXPECT_FALSE(made.at("grad").requires_grad());
    EXPECT_FALSE(in.real.grad().defined());
    EXPECT_FALSE(in.fake.grad().defined());
  }
}

TEST(Dmd, EqualRealAndFakeGiveZero) {
  for (const json& options : {json::object(), kByChunk}) {
    Given in(5);
    if (options.empty()) in = Given(4);
    in.fake = in.real;
    in.x = in.x.set_requires_grad(true);
    const auto made = test::loss(kId, options).evaluate(in.named());
    made.at("loss").sum().backward();
    EXPECT_EQ(made.at("loss").abs().max().item<double>(), 0);
    EXPECT_EQ(made.at("grad").abs().max().item<double>(), 0);
    EXPECT_EQ(in.x.grad().abs().max().item<double>(), 0);
  }
}

// 0 / 0 and predictions that are NaN give no gradient; the loss shows what is NaN, of its own sample alone.
TEST(Dmd, NanGivesNoGradientAndShowsInTheLoss) {
  Given in(4);
  in.fake = in.real = in.x;
  const auto none = test::loss(kId).evaluate(in.named());
  EXPECT_EQ(none.at("grad").abs().max().item<double>(), 0);
  EXPECT_EQ(none.at("loss").abs().max().item<double>(), 0);
  Given broken(4);
  broken.fake[0].fill_(std::nan(""));
  const auto made = test::loss(kId).evaluate(broken.named());
  EXPECT_EQ(made.at("grad")[0].abs().max().item<double>(), 0);
  EXPECT_TRUE(std::isnan(made.at("loss")[0].item<double>()));
  EXPECT_GT(made.at("loss")[1].item<double>(), 0);
  broken.x[1].fill_(std::nan(""));
  EXPECT_TRUE(std::isnan(test::loss(kId).evaluate(broken.named()).at("loss")[1].item<double>()));
}

TEST(Dmd, RefusesWhatDoesNotFit) {
  const auto said = [](const json& options, const core::NamedTensors& in) {
    return test::refusal([&] { test::loss(kId, options).evaluate(in); });
  };
  EXPECT_THAT(said({{"normalizer", "chunk"}}, {}), HasSubstr("needs `chunk`"));
  EXPECT_THAT(said({{"chunk", 2}}, {}), HasSubstr("chunk applies to normalizer"));
  EXPECT_THAT(said({{"normalizer", "chunk"}, {"chunk", 3}}, Given(5).named()),
              HasSubstr("5 latent frames are not chunks of 3"));
  auto in = Given(4).named();
  in["real"] = Given(3).real;
  EXPECT_THAT(said(json::object(), in), HasSubstr("must be [B, T, C, H, W] of the same shape"));
  in.erase("real");
  EXPECT_THAT(said(json::object(), in), HasSubstr("input 'real' is missing"));
  EXPECT_FALSE(test::loss(kId).draws_noise());
}

}  // namespace
}  // namespace kinora
