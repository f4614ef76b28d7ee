// tp against one process: every model, rule and odd size, LoRA, precisions, and invalid options; and the
// tokens of all ranks as the backward finds them.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "core/torch/ranks/mesh.hpp"
#include "kinora/error.hpp"
#include "plugins/parallel/tp/regather.hpp"
#include "tests/support/equality.hpp"
#include "tests/support/plugins.hpp"
#include "tests/support/rank_strategies.hpp"

namespace kinora {
namespace {

using at::Tensor;
using test::Rank;
using test::Trial;

TEST(Tp, EqualsOneProcess) {
  for (const int size : {2, 4})
    test::on_ranks(size, [](const Rank& me) {
      for (const Trial& t : test::odd_trials("{ use = 'tp' }")) test::equals_one_process(me, t);
    });
}

TEST(Tp, EqualsOneProcessOnEightRanks) {
  test::on_ranks(8, [](const Rank& me) {
    Trial t{.parallel = "['tp']", .model = test::models::dit(8, 8), .steps = 1};
    t.frames = 3;
    t.rows = 6;
    t.cols = 10;
    test::equals_one_process(me, t);
  });
}

TEST(Tp, CutsHeadsOfKeysThatSeveralHeadsOfQueriesShare) {
  test::on_ranks(2, [](const Rank& me) {
    for (const auto& [heads, kv] : {std::pair{6, 2}, std::pair{8, 4}}) {
      Trial t{.parallel = "['tp']", .model = test::models::dit(heads, kv), .steps = 1};
      t.frames = 3;
      test::equals_one_process(me, t);
    }
  });
}

// The tokens of a context rank are split again, and its attentions see all of them.
TEST(Tp, EqualsOneProcessBelowContextParallelism) {
  test::on_ranks(4, [](const Rank& me) {
    for (const char* cp : {"cp-ulysses", "cp-ring"}) {
      Trial t{.parallel =
                  "[{ use = 'tp', size = 2 }, { use = '" + std::string(cp) + "', size = 2 }, 'recompute']",
              .rule = {.causal = true},
              .steps = 2};
      t.frames = 3;
      t.rows = 10;
      t.cols = 14;
      test::equals_one_process(me, t);
    }
  });
}

// Partial sums of a ROW linear are summed in float32 and rounded once.
TEST(Tp, IsAsCloseInBfloat16AsOneProcess) {
  test::on_ranks(2, [](const Rank& me) {
    test::equals_one_process(
        me, {.parallel = "['tp']", .each = 2, .frames = 3, .precision = "bf16", .steps = 1}, 3e-2);
  });
}

TEST(Tp, OfOneRankIsNoLinkAsAreTheContextStrategies) {
  core::MeshOwner alone;
  for (const auto& [id, axis] : {std::pair{"parallel/tp", "tp"}, std::pair{"parallel/cp-ulysses", "cp"},
                                 std::pair{"parallel/cp-ring", "cp"}, std::pair{"parallel/cp-2d", "cp"}}) {
    test::Instance<kinora_parallel> s(id, core::json::object(), alone.abi());
    const kinora_link* link = nullptr;
    check(s->link(s.self(), &link));
    EXPECT_STREQ(s->axis(s.self()), axis) << id;
    EXPECT_EQ(link, nullptr) << id << ": calls pass it by";
  }
}

TEST(Tp, RefusesHeadsThatDoNotDivideAndNamesWhatWould) {
  test::on_ranks(4, [](const Rank& me) {
    for (const auto& [heads, kv, most] : {std::tuple{6, 6, 3}, std::tuple{8, 2, 2}, std::tuple{12, 3, 3}}) {
      try {
        test::equals_one_process(me, {.parallel = "['tp']", .model = test::models::dit(heads, kv)});
        FAIL() << heads << " heads, " << kv << " of keys";
      } catch (const Error& e) {
        EXPECT_NE(std::string(e.what()).find("use size = " + std::to_string(most)), std::string::npos)
            << e.what();
        EXPECT_NE(std::string(e.what()).find("linear_"), std::string::npos) << e.what();
      }
    }
  });
}

// Sums products of rows that tokens and a text, the same on every rank, look up in each table.
Tensor looked_up(const Context<Tensor>& c, const std::vector<kinora_param>& tables, const Tensor& ids,
                 const Tensor& text) {
  kinora_seq seq = 0;
  const Tensor own =
      c.sequence(ids.to(at::kDouble).view({1, -1, 1}), ids.numel(), 1, 1, seq).squeeze(2).to(at::kLong);
  Tensor out;
  for (const auto t : tables) {
    const Tensor more = c.lookup(own, t, seq) * c.lookup(text, t, 0).sum(0);
    out = out.defined() ? out + more : more;
  }
  return c.gather(out, seq);
}

// 12 rows are split; 9 cannot be, and a TABLE never is.
std::vector<kinora_param> declare_tables(const Context<Tensor>& c) {
  return {c.parameter({.name = "words", .shape = {12, 6}, .init = Init::normal(1), .role = Role::vocab}),
          c.parameter({.name = "odd", .shape = {9, 6}, .init = Init::normal(1), .role = Role::vocab}),
          c.parameter({.name = "table", .shape = {12, 6}, .init = Init::normal(1), .role = Role::table})};
}

TEST(Tp, LooksUpRowsOfTablesThatItSplits) {
  for (const auto& [size, parallel] : {std::pair{2, "['tp']"},
                                       {4, "['tp']"},
                                       {4, "[{ use = 'tp', size = 2 }, { use = 'cp-ring', size = 2 }]"}})
    test::on_ranks(size, [parallel = parallel](const Rank& me) {
      core::ChainOptions options;
      options.dtype = at::kDouble;
      test::StrategyChain model(me, parallel, options);
      core::Chain one(options);
      const auto tables = declare_tables(model.ctx);
      ASSERT_EQ(tables, declare_tables(Context<Tensor>(one.head())));
      const kinora_pass pass{.struct_size = sizeof pass};
      for (core::Chain* chain : {&model.chain, &one}) chain->ready(), chain->begin(pass);
      EXPECT_GT(model.chain.parameter(tables[0]).shards, 1);
      EXPECT_EQ(model.chain.parameter(tables[1]).shards, 1);
      at::manual_seed(6);
      const Tensor ids = at::randint(9, {7}, at::kLong), text = at::randint(9, {4}, at::kLong),
                   weight = at::randn({1, 7, 6}, at::kDouble);

      const Tensor got = looked_up(model.ctx, tables, ids, text);
      Tensor want = at::zeros({}, at::kDouble);
      for (const auto& leaf : one.leaves())
        want = want + at::embedding(leaf.tensor, ids) * at::embedding(leaf.tensor, text).sum(0);
      EXPECT_LT((got[0] - want).abs().max().item<double>(), 1e-12);
      (got * weight).sum().backward();
      (want * weight).sum().backward();
      model.chain.reduce();
      model.strategies.sum_gradients(model.chain.parameters(), model.chain.leaves());
      for (const auto& leaf : model.chain.leaves()) {
        const auto p = leaf.pieces.at(0).param;
        const Tensor whole = one.leaves()[static_cast<size_t>(p - 1)].tensor.grad(),
                     off = leaf.tensor.grad() - core::slice(model.chain.parameter(p), whole);
        EXPECT_LT(off.abs().max().item<double>(), 1e-12) << leaf.name;
      }
    });
}

// A product of all ranks' tokens with one weight, whose graph keeps all tokens.
struct Product {
  Tensor own, weight, out;
  std::shared_ptr<Regather> kept;

  explicit Product(const Group<Tensor>& group)
      : own(at::randn({2, 3, 5}, at::kDouble)),
        weight(at::randn({4, 5}, at::kDouble).set_requires_grad(true)) {
    const Tensor all = group.gather(own, 1);
    out = at::linear(all, weight);
    kept = std::make_shared<Regather>(group, own, all);
    out.register_hook([kept = kept](const Tensor&) { kept->finish(); });
  }
};

TEST(Regather, GivesTheGraphItsTokensBackAsOftenAsItRuns) {
  test::on_ranks(2, [](const Rank& me) {
    const test::RankGroups world(me, "['tp']");
    const auto group = world.group("tp");
    Product p(group);
    const Tensor grad = at::randn(p.out.sizes(), at::kDouble),
                 want = at::einsum("bno,bni->oi", {grad, group.gather(p.own, 1)});
    p.kept->empty();
    p.kept->start();
    for (const bool again : {true, false}) {
      p.weight.mutable_grad().reset();
      p.out.backward(grad, again);
      EXPECT_LT((p.weight.grad() - want).abs().max().item<double>(), 1e-12);
    }
  });
}

TEST(Regather, RefusesTokensThatWereWrittenToAsTheGraphItselfDoes) {
  test::on_ranks(2, [](const Rank& me) {
    const test::RankGroups world(me, "['tp']");
    Product p(world.group("tp"));
    p.kept->empty();
    p.own.add_(1);
    EXPECT_THROW(p.out.sum().backward(), std::exception);
  });
}

}  // namespace

}  // namespace kinora
