// Every transfer against its closed form on 1, 2 and 4 processes, through the mesh, as strategies use it.
#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "kinora/strategy.hpp"
#include "plugins/collectives/gloo/gloo_testing.hpp"

namespace kinora {
namespace {

using at::Tensor;
using namespace test;  // NOLINT(google-build-using-namespace)

void every_collective(const Group<Tensor>& g, int64_t r) {
  const int64_t n = g.size();
  const Tensor x = numbered(r, 2 * n, 3 * n);
  const auto all = of_all(n, 2 * n, 3 * n);
  const Tensor total = at::stack(all).sum(0);
  EXPECT_TRUE(g.sum(x).equal(total));
  EXPECT_TRUE(g.transfer(transfer(KINORA_OP_ALL_REDUCE_MAX, x)).equal(all.back()));
  for (const int64_t dim : {0, 1, -1}) {
    EXPECT_TRUE(g.gather(x, dim).equal(at::cat(all, dim)));
    EXPECT_TRUE(g.scatter_sum(x, dim).equal(total.chunk(n, dim)[size_t(r)]));
  }
  for (const auto& [split, join] : {std::pair<int64_t, int64_t>{0, 1}, {1, 0}, {0, 0}}) {
    std::vector<Tensor> pieces;
    for (const Tensor& t : all) pieces.push_back(t.chunk(n, split)[size_t(r)]);
    EXPECT_TRUE(g.exchange(x, split, join).equal(at::cat(pieces, join)));
  }
  EXPECT_TRUE(g.transfer(transfer(KINORA_OP_BROADCAST, x, 0, 0, n - 1)).equal(all.back()));
  EXPECT_FALSE(g.transfer(transfer(KINORA_OP_BARRIER, Tensor())).defined());
  EXPECT_TRUE(x.equal(numbered(r, 2 * n, 3 * n))) << "a transfer wrote into its input";
}

void every_dtype(const Group<Tensor>& g, int64_t r) {
  const int64_t n = g.size();
  for (const auto dtype : {at::kDouble, at::kFloat, at::kBFloat16, at::kLong, at::kInt, at::kByte}) {
    const Tensor x = at::full({n, 2}, r + 1, dtype);
    EXPECT_TRUE(g.sum(x).equal(at::full({n, 2}, n * (n + 1) / 2, dtype))) << dtype;
    EXPECT_TRUE(g.scatter_sum(x, 0).equal(at::full({1, 2}, n * (n + 1) / 2, dtype))) << dtype;
  }
  const Tensor flags = at::arange(n) == r;
  EXPECT_TRUE(g.gather(flags.unsqueeze(0), 0).equal(at::eye(n).to(at::kBool)));
  const Tensor strided = numbered(r, 4, 6).t().slice(0, 0, 6, 2);  // not contiguous
  std::vector<Tensor> all;
  for (int64_t k = 0; k < n; ++k) all.push_back(numbered(k, 4, 6).t().slice(0, 0, 6, 2));
  EXPECT_TRUE(g.gather(strided, 1).equal(at::cat(all, 1)));
  EXPECT_TRUE(
      g.gather(at::scalar_tensor(double(r), at::kDouble).unsqueeze(0), 0).equal(at::arange(n, at::kDouble)));
  const Tensor with_gradient = at::ones({2}, at::kDouble).set_requires_grad(true) * 2;
  EXPECT_FALSE(g.sum(with_gradient).requires_grad());
}

TEST(Gloo, EveryTransferHasItsClosedForm) {
  for (const int size : {1, 2, 4})
    on_ranks(size, [](const Rank& me) {
      const World w(me);
      auto owner = w.mesh(me, {{"dp", me.size}});
      const Group<Tensor> g = Mesh<Tensor>(owner.abi()).group("dp");
      ASSERT_EQ(g.size(), me.size);
      ASSERT_EQ(g.rank(), me.rank);
      every_collective(g, me.rank);
      every_dtype(g, me.rank);
    });
}

// The pattern of a pipeline: sends whose completion is not awaited, distinguished by tag, received in another
// order.
TEST(Gloo, MessagesAreToldApartByTagAndNeedNotBeFinishedInOrder) {
  for (const int size : {2, 4})
    on_ranks(size, [](const Rank& me) {
      const World w(me);
      auto owner = w.mesh(me, {{"pp", me.size}});
      const kinora_group* g = owner.group("pp");
      const int64_t to = (me.rank + 1) % me.size, from = (me.rank + me.size - 1) % me.size;
      const Tensor like = at::empty({2, 3}, at::kDouble);
      Tensor a = numbered(me.rank, 2, 3), b = -numbered(me.rank, 2, 3);
      Pending send_a(g, transfer(KINORA_OP_SEND, a, 0, 0, to, 7)),
          send_b(g, transfer(KINORA_OP_SEND, b, 0, 0, to, 9));
      Pending sum(g, transfer(KINORA_OP_ALL_REDUCE, a)), gather(g, transfer(KINORA_OP_ALL_GATHER, b));
      Pending recv_b(g, transfer(KINORA_OP_RECV, like, 0, 0, from, 9)),
          recv_a(g, transfer(KINORA_OP_RECV, like, 0, 0, from, 7));
      EXPECT_TRUE(recv_a.finish().equal(numbered(from, 2, 3)));
      EXPECT_TRUE(recv_b.finish().equal(-numbered(from, 2, 3)));
      EXPECT_TRUE(gather.finish().equal(-at::cat(of_all(me.size, 2, 3))));
      EXPECT_TRUE(sum.finish().equal(at::stack(of_all(me.size, 2, 3)).sum(0)));
      EXPECT_FALSE(send_b.finish().defined());
      EXPECT_FALSE(send_a.finish().defined());
    });
}

// As with torchrun's agent: another process serves the store, and a restart begins in a separate part of it.
TEST(Gloo, MeetsAtAStoreThatALauncherServes) {
  on_ranks(2, [](const Rank& me) {
    c10::intrusive_ptr<c10d::TCPStore> agent;
    if (me.rank == 0) {
      c10d::TCPStoreOptions options;
      options.port = static_cast<uint16_t>(me.port);
      options.isServer = true;
      options.waitWorkers = false;
      agent = c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options);
    }
    for (const char* attempt : {"0", "1"}) {
      const World w(me, 20000, "store://127.0.0.1:" + std::to_string(me.port) + "/attempt-" + attempt);
      auto owner = w.mesh(me, {{"dp", 2}});
      EXPECT_EQ(Mesh<Tensor>(owner.abi()).group("dp").sum(at::ones({1})).item<double>(), 2);
      me.meet(attempt);
    }
  });
}

TEST(Gloo, GroupsOfAMeshHoldTheRanksOfTheirAxes) {
  on_ranks(4, [](const Rank& me) {
    const World w(me, 20000, me.tcp());
    auto owner = w.mesh(me, {{"dp", 2}, {"tp", 2}});
    const auto members = [&](const char* axes) {
      const kinora_group* g = owner.group(axes);
      EXPECT_EQ(g->members[g->rank], me.rank);
      return std::vector<int64_t>(g->members, g->members + g->size);
    };
    const int64_t d = me.rank / 2, t = me.rank % 2;
    using Ranks = std::vector<int64_t>;
    EXPECT_EQ(members("tp"), (Ranks{2 * d, 2 * d + 1}));
    EXPECT_EQ(members("dp"), (Ranks{t, t + 2}));
    EXPECT_EQ(members("tp+dp"), (Ranks{0, 1, 2, 3}));
    EXPECT_EQ(members("cp"), (Ranks{me.rank}));
    EXPECT_EQ(owner.group("world"), owner.group("dp+cp+tp"));
    const Mesh<Tensor> mesh(owner.abi());
    const Tensor one = at::full({1}, me.rank, at::kDouble);
    EXPECT_EQ(mesh.group("tp").sum(one).item<double>(), 4 * d + 1);
    EXPECT_EQ(mesh.group("dp").sum(one).item<double>(), 2 * t + 2);
    EXPECT_EQ(mesh.group("world").sum(one).item<double>(), 6);
    EXPECT_EQ(mesh.group("cp").sum(one).item<double>(), me.rank);
  });
}

TEST(Gloo, AnAxisOfTheMeshCanBeCutInTwo) {
  on_ranks(4, [](const Rank& me) {
    const World w(me);
    auto owner = w.mesh(me, {{"cp", 4}});
    const auto members = [&](const char* axes) {
      const kinora_group* g = owner.group(axes);
      EXPECT_EQ(g->members[g->rank], me.rank);
      return std::vector<int64_t>(g->members, g->members + g->size);
    };
    using Ranks = std::vector<int64_t>;
    const int64_t pair = me.rank / 2 * 2, place = me.rank % 2;
    EXPECT_EQ(members("cp/2"), (Ranks{pair, pair + 1}));
    EXPECT_EQ(members("cp%2"), (Ranks{place, place + 2}));
    EXPECT_EQ(owner.group("cp/4"), owner.group("cp"));
    EXPECT_EQ(owner.group("cp%1"), owner.group("cp"));
    EXPECT_EQ(members("cp/1"), (Ranks{me.rank}));
    EXPECT_EQ(members("cp%4"), (Ranks{me.rank}));
    for (const char* wrong : {"cp/3", "cp/0", "cp%x", "cp/"})
      EXPECT_EQ(failure_of([&] { owner.group(wrong); }).code, KINORA_ERROR_INVALID) << wrong;
  });
}

}  // namespace
}  // namespace kinora
