// cp-ulysses against one process: every model, rule and number of heads.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "kernels/wire/wire.hpp"
#include "kinora/head_exchange.hpp"
#include "tests/support/equality.hpp"
#include "tests/support/rank_strategies.hpp"
#include "tests/support/rounded_exchanges.hpp"

namespace kinora {
namespace {

using test::Rank;
using test::Trial;

constexpr const char* kUlysses = "{ use = 'cp-ulysses' }";

TEST(Ulysses, EqualsOneProcess) {
  for (const int size : {2, 4})
    test::on_ranks(size, [](const Rank& me) {
      for (const Trial& t : test::odd_trials(kUlysses)) test::equals_one_process(me, t);
    });
}

TEST(Ulysses, EqualsOneProcessOnEightRanks) {
  test::on_ranks(8, [](const Rank& me) {
    Trial t{.parallel = "['cp-ulysses']", .rule = {.causal = true}, .steps = 1};
    t.frames = 3;
    t.rows = 6;
    t.cols = 10;
    test::equals_one_process(me, t);
  });
}

// 4 ranks: 6 heads of queries and keys; 6 of 2; 6 of 3; 3 of 1; 12 of 3; 1 of 1.
TEST(Ulysses, TakesAnyNumberOfHeads) {
  test::on_ranks(4, [](const Rank& me) {
    for (const auto& [heads, kv] : {std::pair{6, 6}, std::pair{6, 2}, std::pair{6, 3}, std::pair{3, 1},
                                    std::pair{12, 3}, std::pair{1, 1}}) {
      Trial t{.parallel = "['cp-ulysses']", .model = test::models::dit(heads, kv), .steps = 1};
      t.frames = 3;
      test::equals_one_process(me, t);
    }
  });
}

at::Tensor leaf(const at::Tensor& x) { return x.detach().clone().set_requires_grad(true); }

// Joint attention: the shared keys' heads are this rank's, and 6 heads of 3 do not divide by 4 ranks.
TEST(Ulysses, SharedKeysAreSeenBesideThoseThatAreExchanged) {
  test::on_ranks(4, [](const Rank& me) {
    const test::RankGroups world(me, "['cp-ulysses']");
    const auto group = world.group("cp");
    at::manual_seed(5);
    const int64_t S = 3, L = 5, H = 6, K = 3, E = 4, R = me.size;
    const auto random = [](int64_t n, int64_t heads, int64_t d) {
      return at::randn({2, n, heads, d}, at::kDouble);
    };
    const at::Tensor q = random(R * S, H, 6), k = random(R * L, K, 6), v = random(R * L, K, 5),
                     ks = random(E, K, 6), vs = random(E, K, 5), weight = random(R * S, H, 5);
    const auto attend = [](const at::Tensor& x, const at::Tensor& keys, const at::Tensor& values,
                           const at::Tensor& more_keys, const at::Tensor& more_values) {
      const int64_t each = x.size(2) / keys.size(2);
      const auto heads = [each](const at::Tensor& a, const at::Tensor& b) {
        return at::cat({a, b}, 1).repeat_interleave(each, 2).transpose(1, 2);
      };
      return at::scaled_dot_product_attention(x.transpose(1, 2), heads(keys, more_keys),
                                              heads(values, more_values))
          .transpose(1, 2);
    };
    const auto part = [&](const at::Tensor& x) { return x.chunk(R, 1)[static_cast<size_t>(me.rank)]; };
    const std::vector<at::Tensor> mine{leaf(part(q)), leaf(part(k)), leaf(part(v)), leaf(ks), leaf(vs)},
        whole{leaf(q), leaf(k), leaf(v), leaf(ks), leaf(vs)};
    kinora_attention how{};
    how.struct_size = sizeof how;
    how.k_shared = handle(mine[3]);
    how.v_shared = handle(mine[4]);
    const at::Tensor out = attend_by_heads(
        HeadExchange(group, H, K), mine[0], mine[1], mine[2], how, {}, {},
        [&](const at::Tensor& a, const at::Tensor& b, const at::Tensor& c, const kinora_attention& all) {
          return attend(a, b, c, borrow<at::Tensor>(all.k_shared), borrow<at::Tensor>(all.v_shared));
        });
    (out * part(weight)).sum().backward();
    const at::Tensor want = attend(whole[0], whole[1], whole[2], whole[3], whole[4]);
    (want * weight).sum().backward();
    EXPECT_TRUE(at::allclose(out, part(want), 1e-10, 1e-12));
    for (size_t i = 0; i < 5; ++i) {
      const at::Tensor all = i < 3 ? group.gather(mine[i].grad(), 1) : group.sum(mine[i].grad());
      EXPECT_TRUE(at::allclose(all, whole[i].grad(), 1e-10, 1e-12)) << i;
    }
  });
}

// No rank gets more heads than ceil(H / P), and heads of keys are copied only if necessary.
TEST(Ulysses, HeadsAreCopiedAndFilledUpOnlyAsFarAsNeeded) {
  struct Case {
    int64_t ranks, heads, kv, copies, here, kv_here, zeros;
  };
  for (const auto& c : {Case{4, 8, 8, 1, 2, 2, 0}, Case{4, 8, 2, 2, 2, 1, 0}, Case{4, 8, 4, 1, 2, 1, 0},
                        Case{4, 6, 6, 1, 2, 2, 2}, Case{4, 6, 2, 3, 2, 2, 2}, Case{4, 12, 3, 4, 3, 3, 0},
                        Case{8, 6, 6, 1, 1, 1, 2}, Case{2, 6, 1, 2, 3, 1, 0}, Case{4, 1, 1, 1, 1, 1, 3}}) {
    kinora_group group{};
    group.size = c.ranks;
    const HeadExchange by(Group<at::Tensor>(&group), c.heads, c.kv);
    EXPECT_EQ(by.copies(), c.copies) << c.ranks << " ranks, " << c.heads << " / " << c.kv;
    EXPECT_EQ(by.here(), c.here) << c.ranks << " ranks, " << c.heads << " / " << c.kv;
    EXPECT_EQ(by.kv_here(), c.kv_here) << c.ranks << " ranks, " << c.heads << " / " << c.kv;
    EXPECT_EQ(by.zeros(), c.zeros) << c.ranks << " ranks, " << c.heads << " / " << c.kv;
    EXPECT_EQ(by.told().empty(), c.copies == 1 && c.zeros == 0);
  }
}

// A rank receives what the sender's part decodes to, to the bit, and gradients in a format of their own.
TEST(Ulysses, ExchangesPartsInFewerBytes) {
  test::on_ranks(2, [](const Rank& me) {
    const test::RankGroups world(me, "['cp-ulysses']");
    const auto group = world.group("cp");
    const int64_t P = me.size, rows = 3, cols = 40;
    at::manual_seed(7);
    const at::Tensor x = at::randn({P, P, rows, cols}),
                     grad = at::randn({P, P, rows, cols});  // [from, to, ..]
    const auto arrives = [&](const at::Tensor& from_to, wire::Format f) {
      std::vector<at::Tensor> parts;
      for (int64_t r = 0; r < P; ++r) {
        const at::Tensor part = from_to[r].narrow(0, me.rank, 1);
        parts.push_back(wire::unpacked(wire::packed(part, f, "part"), rows, cols, f, at::kFloat));
      }
      return at::cat(parts);
    };
    for (const auto& [there, back] :
         {std::pair{wire::Format::fp8, wire::Format::nvfp4}, {wire::Format::nvfp4, wire::Format::fp8}}) {
      const at::Tensor mine = leaf(x[me.rank]);
      const at::Tensor out = wire::exchanged(group, mine, there, back, "values", nullptr);
      EXPECT_TRUE(at::equal(out, arrives(x, there)));
      out.backward(grad[me.rank]);
      EXPECT_TRUE(at::equal(mine.grad(), arrives(grad, back)));
      EXPECT_FALSE(at::equal(out, wire::exchanged(group, mine, wire::Format::same, back, "", nullptr)));
    }
    const at::Tensor narrow = wire::exchanged(group, x[me.rank], wire::Format::bfloat16, {}, "", nullptr);
    EXPECT_TRUE(at::equal(narrow, x.select(1, me.rank).to(at::kBFloat16).to(at::kFloat)));
  });
}

// 16 heads: a part's rows have 288 columns, which are three blocks of FP8 and 18 of NVFP4.
TEST(Ulysses, EqualsOneProcessThatRoundsWhatIsSentInFewerBytes) {
  test::on_ranks(2, [](const Rank& me) {
    for (const auto& [values, gradients] : {std::pair{"auto", "auto"},
                                            {"bfloat16", "auto"},
                                            {"fp8", "nvfp4"},
                                            {"nvfp4", "fp8"},
                                            {"auto", "bfloat16"}}) {
      Trial t{.parallel = std::string("[{ use = 'cp-ulysses', wire = '") + values + "', gradient_wire = '" +
                          gradients + "' }]",
              .model = test::models::dit(16),
              .steps = 1};
      t.more = test::of_one_process<test::RoundsExchanges>(int64_t{me.size}, std::string(values),
                                                           std::string(gradients));
      test::equals_one_process(me, t);
    }
  });
}

}  // namespace
}  // namespace kinora
