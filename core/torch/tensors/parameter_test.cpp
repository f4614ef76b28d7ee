#include "core/torch/tensors/parameter.hpp"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/torch/tensors/noise.hpp"
#include "kinora/error.hpp"

namespace kinora::core {
namespace {

using testing::HasSubstr;

struct Cut {
  std::vector<int64_t> shape;
  uint32_t role;
  std::vector<int64_t> parts;
  uint32_t init = KINORA_INIT_NORMAL;
};
Parameter make(const Cut& c, int64_t shard, int64_t shards, int64_t quantum = 1) {
  kinora_param_spec s{};
  s.struct_size = sizeof s;
  s.name = "w";
  s.shape = c.shape.data();
  s.ndim = static_cast<uint32_t>(c.shape.size());
  s.role = c.role;
  s.n_parts = static_cast<uint32_t>(c.parts.size());
  s.parts = c.parts.data();
  s.quantum = quantum;
  s.init = c.init;
  s.init_scale = 0.7;
  s.shard = shard;
  s.shards = shards;
  return make_parameter(s);
}

class CutParameter : public testing::TestWithParam<Cut> {};

TEST_P(CutParameter, DrawsTheNumbersOfOneProcessInTwoAndFourShards) {
  const auto whole = draw(make(GetParam(), 0, 1), 9, at::kDouble);
  for (const int64_t shards : {2, 4}) {
    auto joined = at::full(GetParam().shape, -1., at::kDouble);
    for (int64_t s = 0; s < shards; ++s) {
      const auto p = make(GetParam(), s, shards);
      const auto local = draw(p, 9, at::kDouble);
      EXPECT_EQ(local.sizes(), at::IntArrayRef(p.local_shape()));
      EXPECT_TRUE(at::equal(local, slice(p, whole)));
      place(p, local, joined);
    }
    EXPECT_TRUE(at::equal(joined, whole));
  }
}

TEST_P(CutParameter, RunsOfAnyRangeNameTheSameNumbers) {
  const auto whole = draw(make(GetParam(), 0, 1), 9, at::kDouble).flatten();
  const auto p = make(GetParam(), 1, 2);
  const auto local = draw(p, 9, at::kDouble).flatten();
  for (int64_t first = 0; first < local.numel(); first += 5)
    for (const int64_t count : {int64_t{0}, int64_t{1}, int64_t{7}, local.numel() - first}) {
      const int64_t n = std::min(count, local.numel() - first);
      int64_t next = first;
      for (const auto& r : runs(p, first, n)) {
        EXPECT_EQ(r.local, next);
        next += r.count;
        EXPECT_TRUE(at::equal(whole.narrow(0, r.global, r.count), local.narrow(0, r.local, r.count)));
      }
      EXPECT_EQ(next, first + n);
    }
}

INSTANTIATE_TEST_SUITE_P(Cuts, CutParameter,
                         testing::Values(Cut{{8, 5}, KINORA_ROLE_COLUMN, {}},
                                         Cut{{8}, KINORA_ROLE_COLUMN, {}}, Cut{{3, 8}, KINORA_ROLE_ROW, {}},
                                         Cut{{24, 5}, KINORA_ROLE_COLUMN, {8, 8, 8}},
                                         Cut{{20, 3}, KINORA_ROLE_COLUMN, {12, 4, 4}},
                                         Cut{{3, 24}, KINORA_ROLE_ROW, {8, 16}},
                                         Cut{{4, 8, 3}, KINORA_ROLE_ROW, {}, KINORA_INIT_UNIFORM},
                                         Cut{{8, 2, 3}, KINORA_ROLE_COLUMN, {}, KINORA_INIT_CONSTANT}));

TEST(Parameter, RefusesACutThatBreaksAUnit) {
  const auto message = [](auto f) -> std::string {
    try {
      f();
    } catch (const Error& e) {
      return e.code() == KINORA_ERROR_INVALID ? e.what() : "another code";
    }
    return "no error";
  };
  const Cut qkv{{24, 5}, KINORA_ROLE_COLUMN, {8, 8, 8}};
  EXPECT_THAT(message([&] { make(qkv, 0, 4, 4); }),
              HasSubstr("a part of 8 cannot be split into 4 shards of whole units of 4"));
  EXPECT_THAT(message([&] {
                make({{24, 5}, KINORA_ROLE_COLUMN, {8, 8}}, 0, 2);
              }),
              HasSubstr("8 + 8) do not sum to 24"));
  EXPECT_THAT(message([&] { make({{24, 5}, KINORA_ROLE_WHOLE, {}}, 0, 2); }), HasSubstr("cannot be split"));
  EXPECT_THAT(message([&] { make({{24}, KINORA_ROLE_ROW, {}}, 0, 1); }), HasSubstr("has no dimension 1"));
  EXPECT_THAT(message([&] { make({{24}, KINORA_ROLE_COLUMN, {}}, 2, 2); }), HasSubstr("shard 2 of 2"));
}

TEST(Draw, DependsOnSeedAndNameAndHasTheAskedSpread) {
  auto p = make({{300, 200}, KINORA_ROLE_WHOLE, {}}, 0, 1);
  const auto a = draw(p, 1, at::kFloat);
  EXPECT_TRUE(at::equal(a, draw(p, 1, at::kFloat)));
  EXPECT_TRUE(at::equal(a, draw(p, 1, at::kDouble).to(at::kFloat))) << "drawn once in float64, then rounded";
  EXPECT_NEAR(a.std().item<double>(), 0.7, 0.01);
  EXPECT_NEAR(a.mean().item<double>(), 0, 0.02);
  EXPECT_FALSE(at::equal(a, draw(p, 2, at::kFloat)));
  p.name = "v";
  EXPECT_FALSE(at::equal(a, draw(p, 1, at::kFloat)));
  p.init = KINORA_INIT_UNIFORM;
  const auto u = draw(p, 1, at::kFloat);
  EXPECT_NEAR(u.min().item<double>(), -0.7, 0.001);
  EXPECT_NEAR(u.max().item<double>(), 0.7, 0.001);
}

TEST(Draw, AnIdentityHandsOnThePresentFrameAlsoWhenItIsCut) {
  auto p = make({{4, 3, 2, 1, 1}, KINORA_ROLE_WHOLE, {}}, 0, 1);
  p.init = KINORA_INIT_IDENTITY;
  const auto whole = draw(p, 1, at::kFloat);
  const auto now = whole.select(2, 1).flatten(1);
  EXPECT_TRUE(at::equal(now, 0.7 * at::eye(4, 3))) << now;
  EXPECT_EQ(whole.select(2, 0).abs().max().item<float>(), 0);
  auto cut = make({{4, 3}, KINORA_ROLE_COLUMN, {}}, 1, 2);
  cut.init = KINORA_INIT_IDENTITY;
  EXPECT_TRUE(at::equal(draw(cut, 1, at::kDouble), 0.7 * at::eye(4, 3, at::kDouble).narrow(0, 2, 2)));
}

TEST(TokenNoise, IsAFunctionOfSampleTokenChannelAndKeyOnly) {
  const auto like = at::zeros({4, 10, 7}, at::kDouble);
  const auto index = at::arange(10, at::kLong).unsqueeze(0);
  const auto whole = token_noise(like, index, 5, 100, "embed");
  // The batches of two ranks, a permuted half of the tokens and fewer channels give the same values in other
  // places.
  const auto half = token_noise(like.narrow(0, 0, 2), index, 5, 102, "embed");
  EXPECT_TRUE(at::equal(half, whole.narrow(0, 2, 2)));
  const auto some = at::tensor({7, 2, 9}, at::kLong);
  EXPECT_TRUE(at::equal(token_noise(like.narrow(1, 0, 3), some.unsqueeze(0), 5, 100, "embed"),
                        whole.index_select(1, some)));
  EXPECT_TRUE(at::equal(token_noise(like.narrow(2, 0, 4), index, 5, 100, "embed"), whole.narrow(2, 0, 4)));
  EXPECT_FALSE(at::equal(token_noise(like, index, 6, 100, "embed"), whole));
  EXPECT_FALSE(at::equal(token_noise(like, index, 5, 100, "embe"), whole));
  EXPECT_TRUE(
      at::equal(token_noise(like.to(at::kBFloat16), index, 5, 100, "embed"), whole.to(at::kBFloat16)));
}

TEST(TokenNoise, IsStandardNormalAndIndependent) {
  const auto x =
      token_noise(at::zeros({8, 500, 64}, at::kDouble), at::arange(500, at::kLong).unsqueeze(0), 5, 0, "k");
  EXPECT_NEAR(x.mean().item<double>(), 0, 0.008);
  EXPECT_NEAR(x.var().item<double>(), 1, 0.012);
  EXPECT_NEAR((x * x * x).mean().item<double>(), 0, 0.03);
  // Neighbours along every dimension are uncorrelated.
  for (int64_t dim = 0; dim < 3; ++dim) {
    const int64_t n = x.size(dim);
    EXPECT_NEAR((x.narrow(dim, 0, n - 1) * x.narrow(dim, 1, n - 1)).mean().item<double>(), 0, 0.01) << dim;
  }
}

TEST(SampleNoise, DoesNotDependOnTheBatchItIsDrawnIn) {
  const auto whole = sample_noise(at::zeros({6, 3, 5}), 5, 40, "eps");
  EXPECT_TRUE(at::equal(sample_noise(at::zeros({2, 3, 5}), 5, 43, "eps"), whole.narrow(0, 3, 2)));
  const auto u = sample_uniform({1000, 3}, 5, 0, "t");
  EXPECT_GT(u.min().item<double>(), 0);
  EXPECT_LT(u.max().item<double>(), 1);
  EXPECT_NEAR(u.mean().item<double>(), 0.5, 0.02);
  EXPECT_TRUE(at::equal(sample_uniform({1, 3}, 5, 999, "t")[0], u[999]));
}

}  // namespace
}  // namespace kinora::core
