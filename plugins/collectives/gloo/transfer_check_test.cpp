// Option `check` of collective/gloo: if one rank starts a different transfer, every rank gets an error,
// instead of the end of the process in a thread of Gloo.
#include <gtest/gtest.h>

#include "kinora/strategy.hpp"
#include "plugins/collectives/gloo/gloo_testing.hpp"

namespace kinora {
namespace {

using at::Tensor;
using namespace test;  // NOLINT(google-build-using-namespace)

// The transfer of each of two ranks after a common sum; both must fail with the reason.
void differ(const std::function<void(const Group<Tensor>&, int)>& what,
            const std::vector<std::string>& said) {
  on_ranks(2, [&](const Rank& me) {
    const World w(me, 20000, "", {{"check", true}});
    auto owner = w.mesh(me, {{"dp", 2}});
    const Group<Tensor> g = Mesh<Tensor>(owner.abi()).group("dp");
    EXPECT_EQ(g.sum(at::ones({3}, at::kDouble)).sum().item<double>(), 6);
    const Failed f = failure_of([&] { what(g, me.rank); });
    EXPECT_NE(f.code, KINORA_OK);
    EXPECT_LT(f.seconds, 10);
    me.meet("end");
    for (const auto& part : said)
      EXPECT_NE(f.message.find(part), std::string::npos) << part << ": " << f.message;
  });
}

TEST(GlooCheck, ARankThatMadeOneSumMoreIsNamed) {
  differ(
      [](const Group<Tensor>& g, int rank) {
        if (rank == 0) g.sum(at::ones({5}, at::kDouble));
        g.gather(at::ones({4000, 2}), 0);
      },
      {"sum #2 of Double [5]", "gather #2 of Float [4000, 2] along dimension 0",
       "the same transfers in the same order"});
}

TEST(GlooCheck, AnotherSizeOrDtypeIsNamed) {
  differ([](const Group<Tensor>& g, int rank) { g.sum(at::ones({rank ? 4000 : 5})); },
         {"sum #2 of Float [5]", "sum #2 of Float [4000]"});
  differ([](const Group<Tensor>& g, int rank) { g.sum(at::ones({7}, rank ? at::kDouble : at::kFloat)); },
         {"sum #2 of Float [7]", "sum #2 of Double [7]"});
}

TEST(GlooCheck, AMessageOfAnotherSizeIsNamed) {
  differ(
      [](const Group<Tensor>& g, int rank) {
        if (rank == 0) g.send(at::ones({4000}), 1, 7).finish();
        if (rank == 1) g.receive(at::ones({5}), 0, 7).finish();
      },
      {"a message with tag 7 of Float [5]", "a message with tag 7 of Float [4000]"});
}

TEST(GlooCheck, TransfersThatAgreePassAndWaitForNobody) {
  on_ranks(2, [](const Rank& me) {
    const World w(me, 20000, "", {{"check", true}});
    auto owner = w.mesh(me, {{"pp", 2}});
    const Group<Tensor> g = Mesh<Tensor>(owner.abi()).group("pp");
    const Tensor x = at::full({4}, me.rank + 1, at::kDouble);
    for (int64_t i = 0; i < 3; ++i) {
      // Both send before they receive, and one begins with the sum.
      auto first = me.rank == 0 ? g.start_sum(x) : Started<Tensor>();
      auto sent = g.send(x, 1 - me.rank, 3);
      EXPECT_EQ(g.receive(x, 1 - me.rank, 3).finish()[0].item<double>(), 2 - me.rank);
      if (me.rank == 1) first = g.start_sum(x);
      EXPECT_EQ(first.finish()[0].item<double>(), 3);
      sent.finish();
    }
    EXPECT_EQ(g.exchange(x.view({2, 2}), 0, 1).sizes(), (std::vector<int64_t>{1, 4}));
    g.barrier();
  });
}

}  // namespace
}  // namespace kinora
