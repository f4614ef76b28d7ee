// The tokens of all ranks as the backward finds them.
#include "plugins/parallel/tp/regather.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "kinora/error.hpp"
#include "tests/support/rank_strategies.hpp"

namespace kinora {
namespace {

using at::Tensor;
using test::Rank;

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
