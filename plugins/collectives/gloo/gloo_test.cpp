// Every transfer against its closed form on 1, 2 and 4 processes, through the mesh as strategies use it; and
// what a rank that does not come does to the others.
#include <chrono>
#include <thread>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "core/torch/mesh.hpp"
#include "kinora/aten.hpp"
#include "kinora/strategy.hpp"
#include "tests/support/plugins.hpp"
#include "tests/support/ranks.hpp"

namespace kinora {
namespace {

using at::Tensor;
using std::chrono::steady_clock;
using test::on_ranks;
using test::Rank;

// A world that this rank has joined.
struct World {
  test::Instance<kinora_collective> gloo{"collective/gloo"};
  explicit World(const Rank& me, int32_t timeout_ms = 20000, const std::string& rendezvous = "") {
    const std::string uri = rendezvous.empty() ? me.file() : rendezvous;
    const kinora_world w{sizeof w, timeout_ms, me.rank, me.size, uri.c_str(), nullptr};
    check(gloo->join(gloo.self(), &w));
  }
  core::MeshOwner mesh(const Rank& me, const core::MeshOwner::Sizes& sizes) const {
    return {*gloo.operator->(), gloo.self(), me.rank, sizes};
  }
};

// Row r of rank k is 100 k + 10 r + column: every element says where it comes from.
Tensor numbered(int64_t rank, int64_t rows, int64_t cols) {
  return 100 * rank + 10 * at::arange(rows, at::kDouble).unsqueeze(1) + at::arange(cols, at::kDouble);
}
std::vector<Tensor> of_all(int64_t n, int64_t rows, int64_t cols) {
  std::vector<Tensor> out;
  for (int64_t r = 0; r < n; ++r) out.push_back(numbered(r, rows, cols));
  return out;
}
kinora_transfer transfer(uint32_t op, const Tensor& in, int64_t dim = 0, int64_t dim2 = 0, int64_t peer = 0,
                         int64_t tag = 0) {
  return {sizeof(kinora_transfer), op, dim, dim2, peer, tag, handle(in)};
}

void every_collective(const Group<Tensor>& g, int64_t r) {
  const int64_t n = g.size();
  const Tensor x = numbered(r, 2 * n, 3 * n);
  const auto all = of_all(n, 2 * n, 3 * n);
  const Tensor total = at::stack(all).sum(0);
  EXPECT_TRUE(g.sum(x).equal(total));
  EXPECT_TRUE(g.transfer(transfer(KINORA_MAX, x)).equal(all.back()));
  for (const int64_t dim : {0, 1, -1}) {
    EXPECT_TRUE(g.gather(x, dim).equal(at::cat(all, dim)));
    EXPECT_TRUE(g.scatter_sum(x, dim).equal(total.chunk(n, dim)[size_t(r)]));
  }
  for (const auto& [split, join] : {std::pair<int64_t, int64_t>{0, 1}, {1, 0}, {0, 0}}) {
    std::vector<Tensor> pieces;
    for (const Tensor& t : all) pieces.push_back(t.chunk(n, split)[size_t(r)]);
    EXPECT_TRUE(g.exchange(x, split, join).equal(at::cat(pieces, join)));
  }
  EXPECT_TRUE(g.transfer(transfer(KINORA_BROADCAST, x, 0, 0, n - 1)).equal(all.back()));
  EXPECT_FALSE(g.transfer(transfer(KINORA_BARRIER, Tensor())).defined());
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

struct Pending {
  const kinora_group* g;
  void* work = nullptr;
  Pending(const kinora_group* group, const kinora_transfer& t) : g(group) {
    check(g->start(g->self, &t, &work));
  }
  Tensor finish() {
    kinora_tensor out = nullptr;
    check(g->finish(work, &out));
    return adopt<Tensor>(out);
  }
};

// What a pipeline does: sends that nobody waits for, messages told apart by tag, received in another order.
TEST(Gloo, MessagesAreToldApartByTagAndNeedNotBeFinishedInOrder) {
  for (const int size : {2, 4})
    on_ranks(size, [](const Rank& me) {
      const World w(me);
      auto owner = w.mesh(me, {{"pp", me.size}});
      const kinora_group* g = owner.group("pp");
      const int64_t to = (me.rank + 1) % me.size, from = (me.rank + me.size - 1) % me.size;
      const Tensor like = at::empty({2, 3}, at::kDouble);
      Tensor a = numbered(me.rank, 2, 3), b = -numbered(me.rank, 2, 3);
      Pending send_a(g, transfer(KINORA_SEND, a, 0, 0, to, 7)),
          send_b(g, transfer(KINORA_SEND, b, 0, 0, to, 9));
      Pending sum(g, transfer(KINORA_SUM, a)), gather(g, transfer(KINORA_GATHER, b));
      Pending recv_b(g, transfer(KINORA_RECV, like, 0, 0, from, 9)),
          recv_a(g, transfer(KINORA_RECV, like, 0, 0, from, 7));
      EXPECT_TRUE(recv_a.finish().equal(numbered(from, 2, 3)));
      EXPECT_TRUE(recv_b.finish().equal(-numbered(from, 2, 3)));
      EXPECT_TRUE(gather.finish().equal(-at::cat(of_all(me.size, 2, 3))));
      EXPECT_TRUE(sum.finish().equal(at::stack(of_all(me.size, 2, 3)).sum(0)));
      EXPECT_FALSE(send_b.finish().defined());
      EXPECT_FALSE(send_a.finish().defined());
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

// The status and message of a transfer that is bound to fail, and how long it took.
struct Failed {
  int32_t code = KINORA_OK;
  std::string message;
  double seconds = 0;
};
template <class F>
Failed failure_of(F f) {
  const auto begin = steady_clock::now();
  Failed out;
  try {
    f();
  } catch (const Error& e) {
    out = {e.code(), e.what(), 0};
  }
  out.seconds = std::chrono::duration<double>(steady_clock::now() - begin).count();
  return out;
}

TEST(Gloo, AMissingRankIsATimeoutThatNamesTransferGroupAndRank) {
  on_ranks(3, [](const Rank& me) {
    const World w(me, 1000);
    auto owner = w.mesh(me, {{"dp", 3}});
    const Group<Tensor> g = Mesh<Tensor>(owner.abi()).group("dp");
    const Tensor x = at::ones({4}, at::kDouble);
    g.sum(x);
    if (me.rank == 1) {
      std::this_thread::sleep_for(std::chrono::seconds(4));
      return;
    }
    const Failed f = failure_of([&] { g.gather(x, 0); });
    EXPECT_EQ(f.code, KINORA_TIMEOUT) << f.message;
    for (const char* part : {"gather #2", "group 'dp'", "1000 ms", "rank 1 did not take part"})
      EXPECT_NE(f.message.find(part), std::string::npos) << part << " is missing in: " << f.message;
    EXPECT_EQ(f.message.find("ranks"), std::string::npos) << "a healthy rank is blamed: " << f.message;
    EXPECT_LT(f.seconds, 2.5);
  });
}

TEST(Gloo, AMessageThatNobodySendsIsATimeoutThatNamesItsSender) {
  on_ranks(3, [](const Rank& me) {
    const World w(me, 1000);
    auto owner = w.mesh(me, {{"pp", 3}});
    const kinora_group* g = owner.group("pp");
    if (me.rank != 0) {
      std::this_thread::sleep_for(std::chrono::seconds(3));
      return;
    }
    const Failed f =
        failure_of([&] { Pending(g, transfer(KINORA_RECV, at::empty({2}), 0, 0, 2, 5)).finish(); });
    EXPECT_EQ(f.code, KINORA_TIMEOUT);
    EXPECT_NE(f.message.find("recv #1 from rank 2 with tag 5 of group 'pp'"), std::string::npos) << f.message;
    EXPECT_NE(f.message.find("rank 2 did not take part"), std::string::npos) << f.message;
  });
}

TEST(Gloo, ARankThatDiedIsNamedAtOnce) {
  on_ranks(3, [](const Rank& me) {
    const World w(me, 20000);
    auto owner = w.mesh(me, {{"dp", 3}});
    const Group<Tensor> g = Mesh<Tensor>(owner.abi()).group("dp");
    g.sum(at::ones({1}));
    if (me.rank == 2) _exit(0);
    const Failed f = failure_of([&] { g.sum(at::ones({1})); });
    EXPECT_EQ(f.code, KINORA_IO) << f.message;
    EXPECT_NE(f.message.find("sum #2"), std::string::npos) << f.message;
    EXPECT_NE(f.message.find("rank 2 did not take part"), std::string::npos) << f.message;
    EXPECT_LT(f.seconds, 5);
  });
}

TEST(Gloo, AWorldThatDoesNotFillSaysWhoIsMissing) {
  on_ranks(2, [](const Rank& me) {
    for (const std::string& uri : {me.file(), me.tcp()}) {
      const Failed f = failure_of([&] { World w({me.rank, 3, me.folder, me.port}, 1000, uri); });
      EXPECT_EQ(f.code, KINORA_TIMEOUT);
      if (me.rank != 0) continue;
      EXPECT_NE(f.message.find("of 3 ranks these did not join within 1000 ms: 2"), std::string::npos)
          << f.message;
    }
  });
}

TEST(Gloo, RefusesWhatWouldHangTheOthers) {
  on_ranks(2, [](const Rank& me) {
    const World w(me);
    auto owner = w.mesh(me, {{"dp", 2}});
    const kinora_group* g = owner.group("dp");
    const auto invalid = [&](const kinora_transfer& t, const char* part) {
      const Failed f = failure_of([&] { Pending(g, t).finish(); });
      EXPECT_EQ(f.code, KINORA_INVALID);
      EXPECT_NE(f.message.find(part), std::string::npos) << f.message;
    };
    const Tensor x = at::ones({3, 4});
    invalid(transfer(KINORA_SCATTER_SUM, x, 0), "dimension 0 of size 3 does not divide by 2 ranks");
    invalid(transfer(KINORA_EXCHANGE, x, 0, 1), "does not divide");
    invalid(transfer(KINORA_SUM, at::ones({2}, at::kBool)), "cannot combine Bool");
    invalid(transfer(KINORA_BROADCAST, x, 0, 0, 2), "no rank 2 in a group of 2");
    invalid(transfer(KINORA_SEND, x, 0, 0, me.rank), "to itself");
    EXPECT_EQ(failure_of([&] { owner.group("tq"); }).code, KINORA_INVALID);
    EXPECT_TRUE(Group<Tensor>(g).sum(x).equal(2 * x));  // and nothing is out of step
  });
  for (const char* uri : {"", "file://relative", "tcp://host", "tcp://host:0", "tcp://host:99999", "/tmp/x"})
    EXPECT_EQ(failure_of([&] {
                World({0, 2, "", 0}, 1000, uri[0] ? uri : "-");
              }).code,
              KINORA_INVALID)
        << uri;
}

}  // namespace
}  // namespace kinora
