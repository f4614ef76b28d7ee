#include "core/torch/weights/partial_init.hpp"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kinora/error.hpp"

namespace kinora::core {
namespace {

using PR = PartialRow;

Parameter parameter(const std::string& name, std::vector<int64_t> shape) {
  Parameter p;
  p.name = name, p.shape = std::move(shape), p.parts = {p.shape[0]};
  p.init = KINORA_INIT_NORMAL, p.a = 0.5;
  return p;
}

struct InitModel {
  Parameters parameters;
  std::vector<Leaf> leaves;
  explicit InitModel(const std::vector<std::pair<std::string, std::vector<int64_t>>>& shapes) {
    for (const auto& [name, shape] : shapes) {
      parameters.push_back(parameter(name, shape));
      const at::Tensor t = at::full(shape, -7.0, at::kDouble);
      leaves.push_back({name, t, false, false, {{kinora_param(parameters.size()), 0, t.numel(), 0}}});
    }
  }
  const at::Tensor& operator[](size_t i) const { return leaves[i].tensor; }
};

TEST(PartialInit, TakesWhatFitsCopiesTheOverlapAndDrawsTheRest) {
  InitModel m({{"same", {2, 3}}, {"wider", {4, 5}}, {"narrower", {2, 2}}, {"rank", {4}}, {"added", {3}}});
  const auto random = [](at::IntArrayRef shape) { return at::randn(shape, at::kDouble); };
  const NamedTensors file{{"same", random({2, 3})},
                          {"wider", random({3, 6}).to(at::kFloat)},
                          {"narrower", random({3, 3})},
                          {"rank", random({2, 2})},
                          {"left over", random({5})}};
  const auto report = load_partially(m.parameters, m.leaves, file, {.seed = 5});
  const auto first = [&](size_t i) { return draw(m.parameters[i], 5, at::kDouble); };
  EXPECT_TRUE(at::equal(m[0], file.at("same")));
  at::Tensor wider = first(1);
  wider.narrow(0, 0, 3).copy_(file.at("wider").narrow(1, 0, 5));
  EXPECT_TRUE(at::equal(m[1], wider));
  EXPECT_TRUE(at::equal(m[2], file.at("narrower").narrow(0, 0, 2).narrow(1, 0, 2)));
  EXPECT_TRUE(at::equal(m[3], first(3)));
  EXPECT_TRUE(at::equal(m[4], first(4)));
  std::vector<std::pair<std::string, PR::Fate>> fates;
  for (const auto& r : report.rows) fates.emplace_back(r.name, r.fate);
  EXPECT_THAT(fates,
              testing::ElementsAre(testing::Pair("same", PR::taken), testing::Pair("wider", PR::resized),
                                   testing::Pair("narrower", PR::resized), testing::Pair("rank", PR::fresh),
                                   testing::Pair("added", PR::fresh), testing::Pair("left over", PR::unused),
                                   testing::Pair("rank", PR::unused)));
  EXPECT_EQ(report.text(),
            "1 taken, 2 resized, 2 new, 2 unused\n"
            "resized  wider  [4, 5] from [3, 6]\n"
            "resized  narrower  [2, 2] from [3, 3]\n"
            "new      rank  [4], the file's is [2, 2]\n"
            "new      added  [3]\n"
            "unused   left over  [5]\n"
            "unused   rank  [2, 2]");
}

TEST(PartialInit, IsTheSameOnEveryShard) {
  const NamedTensors file{{"w", at::randn({3, 2}, at::kDouble)}};
  InitModel whole({{"w", {4, 3}}});
  load_partially(whole.parameters, whole.leaves, file);
  for (int64_t shard : {0, 1}) {
    InitModel half({{"w", {4, 3}}});
    auto& p = half.parameters[0];
    p.role = KINORA_ROLE_COLUMN, p.shard = shard, p.shards = 2;
    half.leaves[0] = {"w", at::zeros({2, 3}, at::kDouble), false, false, {{1, 0, 6, 0}}};
    load_partially(half.parameters, half.leaves, file);
    EXPECT_TRUE(at::equal(half[0], whole[0].narrow(0, 2 * shard, 2)));
  }
}

TEST(PartialInit, FollowsListsThatGrewAtTheirFront) {
  const auto name = shifted("decoder.up_blocks.", -1);
  EXPECT_EQ(name("decoder.up_blocks.10.conv.weight"), "decoder.up_blocks.9.conv.weight");
  EXPECT_EQ(name("decoder.up_blocks.0.conv.weight"), "");
  EXPECT_EQ(name("encoder.down_blocks.1.x"), "encoder.down_blocks.1.x");
  EXPECT_EQ(name("decoder.up_blocks.x"), "decoder.up_blocks.x");
  InitModel m({{"up.0.w", {2}}, {"up.1.w", {2}}});
  const NamedTensors file{{"up.0.w", at::randn({2}, at::kDouble)}};
  const auto report = load_partially(m.parameters, m.leaves, file, {.name_in_file = shifted("up.", -1)});
  EXPECT_TRUE(at::equal(m[1], file.at("up.0.w")));
  EXPECT_EQ(report.rows[0].fate, PR::fresh);
  EXPECT_EQ(report.count(PR::unused), 0u);
}

TEST(PartialInit, RefusesAFileOfSomethingElse) {
  InitModel m({{"a", {2}}});
  EXPECT_THROW(load_partially(m.parameters, m.leaves, NamedTensors{{"b", at::zeros({2})}}), Error);
  EXPECT_EQ(m[0].sum().item<double>(), -14);
}

}  // namespace
}  // namespace kinora::core
