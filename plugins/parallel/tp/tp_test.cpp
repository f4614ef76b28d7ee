// tp against one process: every model, rule and odd size, LoRA, precisions, and invalid options; and the
// tokens of all ranks as the backward finds them.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "core/torch/context/mesh.hpp"
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
