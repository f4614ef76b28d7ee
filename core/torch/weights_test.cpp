#include "core/torch/weights.hpp"

#include <filesystem>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/torch/safe_tensors.hpp"
#include "kinora/error.hpp"

namespace kinora::core {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Parameter column(const std::string& name, std::vector<int64_t> shape, std::vector<int64_t> parts,
                 int64_t shard, int64_t shards) {
  Parameter p;
  p.name = name, p.shape = std::move(shape), p.parts = std::move(parts), p.role = KINORA_COLUMN,
  p.shard = shard, p.shards = shards;
  return p;
}

// Two tensor ranks times two FSDP ranks: each holds half of the flat local piece of a fused qkv and a whole
// bias.
struct Rank {
  Parameters parameters;
  std::vector<Leaf> leaves;
  Rank(int64_t tensor, int64_t fsdp) {
    parameters = {column("qkv", {12, 5}, {4, 4, 4}, tensor, 2), column("bias", {3}, {3}, 0, 1)};
    parameters[1].role = KINORA_WHOLE;
    Leaf l;  // 30 + 3 numbers, the first 17 of them on rank 0 of the FSDP group
    l.tensor = at::zeros({17}, at::kDouble).set_requires_grad(true);
    l.pieces = fsdp ? std::vector<Piece>{{1, 17, 13, 0}, {2, 0, 3, 13}}
                    : std::vector<Piece>{{1, 0, 17, 0}, {2, 0, 0, 17}};
    leaves.push_back(l);
  }
};

TEST(Weights, ReachEveryPieceAndAreAssembledFromAll) {
  const NamedTensors whole{{"qkv", at::randn({12, 5}, at::kDouble)}, {"bias", at::randn({3}, at::kDouble)}};
  std::vector<Rank> ranks{{0, 0}, {0, 1}, {1, 0}, {1, 1}};
  NamedTensors sum{{"qkv", at::zeros({12, 5}, at::kDouble)}, {"bias", at::zeros({3}, at::kDouble)}};
  for (size_t r = 0; r < 4; ++r) {
    load_values(ranks[r].parameters, ranks[r].leaves, whole);
    Exchange exchange;  // ranks 1 and 3 both hold the bias
    exchange.mine = [&](const Leaf&, const Piece& p) { return p.param == 1 || r == 1; };
    size_t next = 0;
    exchange.sum = [&](at::Tensor& t) { sum.at(next++ ? "bias" : "qkv") += t; };
    assemble(ranks[r].parameters, ranks[r].leaves, exchange);
  }
  for (const auto& [name, t] : whole) EXPECT_TRUE(at::equal(sum.at(name), t)) << name;
}

TEST(Weights, ConvertDtypesAndGoThroughAFile) {
  Parameters parameters{column("a", {2, 2}, {2}, 0, 1)};
  std::vector<Leaf> leaves{{"a", at::zeros({2, 2}).set_requires_grad(true), false, false, {{1, 0, 4, 0}}}};
  const auto file = std::filesystem::temp_directory_path() /
                    ("kinora-weights-" + std::to_string(getpid()) + ".safetensors");
  const auto a = at::randn({2, 2}).to(at::kBFloat16);
  write_tensors(file, {{"a", a.t()}, {"extra", at::ones({1})}});
  const auto opened = or_throw(Safetensors::open(file));
  const auto report = load_values(parameters, leaves, opened.names(), find_in(opened), {false, true});
  EXPECT_TRUE(at::equal(leaves[0].tensor, a.t().to(at::kFloat)));
  EXPECT_THAT(report.unexpected, ElementsAre("extra"));
  EXPECT_TRUE(at::equal(read_tensors(file).at("a"), a.t()));
  std::filesystem::remove(file);
}

TEST(Weights, ErrorsListEverythingThatDoesNotFitAndCopyNothing) {
  Parameters parameters{column("blocks.0.q.weight", {2, 2}, {2}, 0, 1),
                        column("blocks.0.k.weight", {2, 2}, {2}, 0, 1), column("head", {2}, {2}, 0, 1)};
  std::vector<Leaf> leaves;
  for (kinora_param id = 1; id <= 3; ++id) {
    const auto& p = parameters[static_cast<size_t>(id - 1)];
    leaves.push_back(
        {p.name, at::zeros(p.shape).set_requires_grad(true), false, false, {{id, 0, p.numel(), 0}}});
  }
  const NamedTensors given{{"blocks.0.q.weigth", at::ones({2, 2})},
                           {"blocks.0.k.weight", at::ones({2, 3})},
                           {"head", at::ones({2})},
                           {"other", at::ones({1})}};
  try {
    load_values(parameters, leaves, given);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), KINORA_INVALID);
    EXPECT_THAT(e.what(), HasSubstr("'blocks.0.k.weight' is [2, 3] in the file and [2, 2] in the model"));
    EXPECT_THAT(e.what(), HasSubstr("1 missing: 'blocks.0.q.weight', did you mean 'blocks.0.q.weigth'?"));
    EXPECT_THAT(e.what(), HasSubstr("2 unexpected: blocks.0.q.weigth, other"));
  }
  EXPECT_EQ(leaves[2].tensor.sum().item<float>(), 0);
}

}  // namespace
}  // namespace kinora::core
