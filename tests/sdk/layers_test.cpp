// kinora/layers.hpp, patches.hpp, block_inputs.hpp: against their formulas, number by number, in float64.
#include "kinora/layers.hpp"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/torch/chain/chain.hpp"
#include "kinora/block_inputs.hpp"
#include "kinora/patches.hpp"
#include "kinora/rope.hpp"
#include "tests/support/oracle.hpp"
#include "tests/support/refusal.hpp"

namespace kinora {
namespace {

using at::Tensor;
using test::numbers;
using Row = std::vector<double>;

Row row(const Tensor& t) {
  const Tensor c = t.detach().to(at::kDouble).contiguous();
  return {c.data_ptr<double>(), c.data_ptr<double>() + c.numel()};
}
void expect_near(const Tensor& found, const Row& wanted, double bound = 1e-13) {
  const Row f = row(found);
  ASSERT_EQ(f.size(), wanted.size());
  for (size_t i = 0; i < f.size(); ++i) EXPECT_NEAR(f[i], wanted[i], bound) << i;
}

// A chain with the given declarations and oracle_weight()'s numbers.
struct Layers : testing::Test {
  core::Chain chain{[] {
    test::plugins();
    core::ChainOptions o;
    o.dtype = at::kDouble;
    return o;
  }()};
  Ctx ctx{chain.head()};
  std::map<std::string, Row> values;
  void ready() {
    chain.ready();
    core::NamedTensors weights;
    for (const auto& p : chain.parameters()) {
      weights[p.name] = test::oracle_weight(p.name, p.shape);
      values[p.name] = row(weights[p.name]);
    }
    core::load_values(chain.parameters(), chain.leaves(), weights);
  }
  // x W^T + b of each row of x.
  Row product(const Row& x, const std::string& name, size_t out) const {
    const Row& w = values.at(name + ".weight");
    const size_t in = w.size() / out;
    Row y(x.size() / in * out);
    for (size_t i = 0; i < y.size(); ++i) {
      y[i] = values.count(name + ".bias") ? values.at(name + ".bias")[i % out] : 0;
      for (size_t k = 0; k < in; ++k) y[i] += x[i / out * in + k] * w[i % out * in + k];
    }
    return y;
  }
};
Row silu(Row x) {
  for (double& v : x) v /= 1 + std::exp(-v);
  return x;
}

TEST_F(Layers, DeclareNamesShapesRolesAndBlocks) {
  const Declare outside(ctx), block = Declare(ctx, "blocks.", 3).in("0");
  EXPECT_EQ(outside.name(), "");
  EXPECT_EQ(block.name(), "blocks.0");
  outside("table", {2, 3}, Init::zeros(), Role::table);
  block.biased("up", 8, 4, Role::column, 2);
  block.biased("down", 4, 8, Init::ones(), Role::row, 2);
  block.linear("plain", 4, 8, Role::row);
  block.layer_norm("norm", 4, 1e-5);
  std::vector<std::string> found;
  for (const auto& p : chain.parameters())
    found.push_back(
        c10::str(p.name, " ", p.shape, " role ", p.role, " block ", p.block, " quantum ", p.quantum));
  EXPECT_THAT(found, testing::ElementsAre("table 2 3 role 3 block -1 quantum 1",
                                          "blocks.0.up.weight 8 4 role 1 block 3 quantum 2",
                                          "blocks.0.up.bias 8 role 1 block 3 quantum 2",
                                          "blocks.0.down.weight 4 8 role 2 block 3 quantum 2",
                                          "blocks.0.down.bias 4 role 0 block 3 quantum 1",
                                          "blocks.0.plain.weight 4 8 role 2 block 3 quantum 1",
                                          "blocks.0.norm.weight 4 role 0 block 3 quantum 1",
                                          "blocks.0.norm.bias 4 role 0 block 3 quantum 1"));
  EXPECT_DOUBLE_EQ(xavier(8, 4).a, std::sqrt(0.5));
  EXPECT_DOUBLE_EQ(fan_in(16).a, 0.25);
}

TEST_F(Layers, NormsDivideByTheDeviationAndByTheRootMeanSquare) {
  const Declare declare(ctx);
  const auto norm = declare.layer_norm("norm", 6, 1e-2);
  const auto scale = declare.weight("rms", {6}, Init::ones());
  ready();
  const Tensor x = numbers("x", {2, 6});
  const Row v = row(x), w = values["norm.weight"], b = values["norm.bias"], s = values["rms.weight"];
  Row layer(12), rms(12);
  for (size_t r = 0; r < 12; r += 6) {
    double mean = 0, square = 0;
    for (size_t i = 0; i < 6; ++i) mean += v[r + i] / 6, square += v[r + i] * v[r + i] / 6;
    for (size_t i = 0; i < 6; ++i) {
      layer[r + i] = (v[r + i] - mean) / std::sqrt(square - mean * mean + 1e-2) * w[i] + b[i];
      rms[r + i] = v[r + i] / std::sqrt(square + 1e-2) * s[i];
    }
  }
  expect_near(norm(ctx, x), layer);
  expect_near(rms_norm(ctx, x, scale, 1e-2), rms);
  EXPECT_EQ(norm(ctx, x.to(at::kBFloat16)).scalar_type(), at::kBFloat16);
}

TEST_F(Layers, OfTwoLinearLayersHaveTheirActivationBetween) {
  const Declare declare(ctx);
  const Embedder embedder{declare.biased("in", 5, 4), declare.linear("out", 3, 5)};
  const FeedForward mlp{declare.biased("up", 7, 4), declare.biased("down", 4, 7)};
  const AdaLn low(declare.in("low"), {"1", "2"}, 4, 2, 3), full(declare.in("full"), {"1", "2"}, 4, 0, 3);
  ready();
  const Tensor x = numbers("x", {1, 2, 4});
  expect_near(embedder(ctx, x), product(silu(product(row(x), "in", 5)), "out", 3));
  Row squares = product(row(x), "up", 7);
  for (double& v : squares) v *= v;
  expect_near(mlp(ctx, x, 0, [](const Tensor& t) { return t.square(); }), product(squares, "down", 4));
  expect_near(low(ctx, x), product(product(row(x), "low.1", 2), "low.2", 12));
  const Row all = product(row(x), "full.1", 12);
  expect_near(full(ctx, x), all);
  expect_near(full.split(full(ctx, x)).at(1),
              {all[4], all[5], all[6], all[7], all[16], all[17], all[18], all[19]});
}

TEST_F(Layers, HeadsAttendByTheSoftmaxOfTheirProducts) {
  const Heads heads(Declare(ctx, "blocks.0.attn.", 0), 2), unscaled(Declare(ctx, "b.", 0), 2, 1);
  ready();
  const Tensor q = numbers("q", {1, 3, 4}), k = numbers("k", {1, 5, 4}), v = numbers("v", {1, 5, 4});
  for (const auto& [by, scale] : {std::pair{&heads, std::sqrt(0.5)}, {&unscaled, 1.0}}) {
    Row wanted;
    for (int64_t i = 0; i < 3; ++i)
      for (int64_t c = 0; c < 4; ++c) {
        double sum = 0, out = 0;
        for (int64_t j = 0; j < 5; ++j) {
          const auto at = [&](const Tensor& t, int64_t s, int64_t n) {
            return t[0][s][c / 2 * 2 + n].item<double>();
          };
          const double e = std::exp(scale * (at(q, i, 0) * at(k, j, 0) + at(q, i, 1) * at(k, j, 1)));
          sum += e, out += e * v[0][j][c].item<double>();
        }
        wanted.push_back(out / sum);
      }
    expect_near(by->attend(ctx, 0, by->split(q), by->split(k), by->split(v)), wanted);
  }
}

TEST(Waves, AreThoseOfTheFormula) {
  Row cosines, sines, angles;
  const Tensor t = at::tensor({0.5, 700.0}, at::kDouble);
  for (const double v : {0.5, 700.0})
    for (int i = 0; i < 3; ++i) angles.push_back(v * std::pow(10000.0, -2.0 * i / 6));
  for (const size_t r : {0, 3}) {
    for (size_t i = r; i < r + 3; ++i)
      cosines.push_back(std::cos(angles[i])), sines.push_back(std::sin(angles[i]));
    for (size_t i = r; i < r + 3; ++i)
      cosines.push_back(std::sin(angles[i])), sines.push_back(std::cos(angles[i]));
  }
  expect_near(sinusoid(t, 6), cosines, 1e-11);
  expect_near(sinusoid(t, 6, true), sines, 1e-11);
  expect_near(rope_angles(t, 6, 10000), angles, 1e-11);
  EXPECT_EQ(sinusoid(t.to(at::kHalf), 6).scalar_type(), at::kFloat);
}

TEST(Patches, HaveTheirNumbersInTheNamedOrder) {
  const std::array<int64_t, 3> patch{2, 3, 1}, tokens{2, 2, 3};
  const Tensor x = numbers("x", {2, 5, 4, 6, 3});
  for (const auto order : {PatchOrder::channels_first, PatchOrder::channels_last, PatchOrder::space_first}) {
    const Tensor made = patchify(x, patch, order);
    ASSERT_EQ(made.sizes(), (std::vector<int64_t>{2, 12, 30}));
    for (int64_t c = 0; c < 5; ++c)
      for (int64_t t = 0; t < 2; ++t)
        for (int64_t h = 0; h < 3; ++h) {
          const int64_t n = order == PatchOrder::channels_first  ? (c * 2 + t) * 3 + h
                            : order == PatchOrder::channels_last ? (t * 3 + h) * 5 + c
                                                                 : (h * 2 + t) * 5 + c;
          const int64_t token = (1 * 2 + 0) * 3 + 2;  // frame 1, row 0, column 2
          EXPECT_EQ(made[1][token][n].item<double>(), x[1][c][2 + t][h][2].item<double>()) << c << t << h;
        }
    EXPECT_TRUE(at::equal(unpatchify(made, tokens, patch, order), x));
  }
}

struct Some : BlockInputs<Some> {
  Tensor a, b, c;
  std::vector<Tensor*> all() { return {&a, &b, &c}; }
};

TEST(BlockInputsOfSome, ComeBackAtTheirPlaces) {
  Some some;
  some.a = at::ones({1}), some.c = at::zeros({2});
  auto packed = some.pack();
  ASSERT_EQ(packed.size(), 2u);
  packed.insert(packed.begin(), at::ones({3}));
  const Some back = Some::unpack(packed, 1, some.has());
  EXPECT_TRUE(back.a.is_same(some.a) && !back.b.defined() && back.c.is_same(some.c));
}

TEST(TextInput, IsCheckedAndZerosIfHidden) {
  const auto read = [](const core::NamedTensors& in) {
    std::vector<kinora_named> named;
    for (const auto& [name, t] : in) named.push_back({name.c_str(), handle(t)});
    return read_text(Named<Tensor>(named.data(), named.size()), at::zeros({1}, at::kFloat), 2, 4, "model/x");
  };
  const Tensor text = at::ones({2, 3, 4}), mask = at::tensor({1, 0, 0, 0, 0, 0}, at::kLong).view({2, 3});
  EXPECT_TRUE(at::equal(read({}).tokens, at::zeros({2, 1, 4})));
  const Text hidden = unconditional_if_hidden(read({{"text", text}, {"text_mask", mask}}));
  expect_near(hidden.tokens.sum(-1), {4, 4, 4, 0, 0, 0});
  expect_near(hidden.mask, {1, 0, 0, 1, 1, 1});
  EXPECT_FALSE(unconditional_if_hidden(read({{"text", text}})).mask.defined());
  EXPECT_THAT(test::refusal([&] {
                read({{"text", text[0]}});
              }),
              testing::HasSubstr("model/x: text has shape [3, 4], needed is [2, L, 4]"));
  EXPECT_THAT(test::refusal([&] {
                read({{"text", text}, {"text_mask", mask[0]}});
              }),
              testing::HasSubstr("text_mask has shape [3]"));
}

}  // namespace
}  // namespace kinora
