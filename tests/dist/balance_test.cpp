// The work of each rank: bytes by their closed forms, and slow ranks.
#include "plugins/jobs/training/balance.hpp"

#include <thread>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plugins/collectives/gloo/gloo_testing.hpp"
#include "tests/support/run_file.hpp"

namespace kinora::core {
namespace {

using test::on_ranks;
using test::Pending;
using test::Rank;
using test::transfer;

TEST(Traffic, IsWhatEveryAlgorithmMustMove) {
  for (const int64_t n : {2, 4})
    on_ranks(static_cast<int>(n), [n](const Rank& me) {
      const test::World w(me);
      auto owner = w.mesh(me, {{"dp", n}});
      const kinora_group* g = owner.group("dp");
      const at::Tensor x = at::ones({4, 6}, at::kDouble);
      const int64_t b = 4 * 6 * 8, next = (me.rank + 1) % n, last = (me.rank + n - 1) % n;
      for (const uint32_t op : {KINORA_OP_ALL_REDUCE, KINORA_OP_ALL_REDUCE_MAX, KINORA_OP_ALL_GATHER,
                                KINORA_OP_REDUCE_SCATTER, KINORA_OP_ALL_TO_ALL})
        Pending(g, transfer(op, x)).finish();
      Pending(g, transfer(KINORA_OP_BROADCAST, x, 0, 0, 1)).finish();
      Pending send(g, transfer(KINORA_OP_SEND, x, 0, 0, next)),
          recv(g, transfer(KINORA_OP_RECV, x, 0, 0, last));
      recv.finish();
      send.finish();
      Pending(g, transfer(KINORA_OP_BARRIER, at::Tensor())).finish();
      const bool root = me.rank == 1;
      const std::map<std::string, std::pair<int64_t, int64_t>> want{
          {"sum", {2 * (n - 1) * b / n, 2 * (n - 1) * b / n}},
          {"max", {2 * (n - 1) * b / n, 2 * (n - 1) * b / n}},
          {"gather", {(n - 1) * b, (n - 1) * b}},
          {"scatter-sum", {(n - 1) * b / n, (n - 1) * b / n}},
          {"exchange", {(n - 1) * b / n, (n - 1) * b / n}},
          {"broadcast", {root ? (n - 1) * b : 0, root ? 0 : b}},
          {"send", {b, 0}},
          {"recv", {0, b}},
          {"barrier", {0, 0}}};
      const auto rows = owner.traffic().rows();
      EXPECT_EQ(rows.size(), want.size());
      for (const auto& [op, bytes] : want) {
        const auto& row = rows.at({"dp", op});
        EXPECT_EQ(std::pair(row.sent, row.received), bytes) << op;
        EXPECT_EQ(row.transfers, 1) << op;
      }
    });
}

TEST(Traffic, CountsTheWaitForASlowRank) {
  on_ranks(2, [](const Rank& me) {
    const test::World w(me);
    auto owner = w.mesh(me, {{"dp", 2}});
    const kinora_group* g = owner.group("dp");
    Pending(g, transfer(KINORA_OP_ALL_REDUCE, at::ones({1}))).finish();
    const double before = owner.traffic().total().waited;
    if (me.rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(400));
    Pending(g, transfer(KINORA_OP_ALL_REDUCE, at::ones({1}))).finish();
    const double waited = owner.traffic().total().waited - before;
    EXPECT_EQ(waited > 0.25, me.rank == 0) << waited;
  });
}

std::vector<RankWork> computing(const std::vector<double>& seconds) {
  std::vector<RankWork> out;
  for (const double s : seconds) out.push_back({.steps = 10, .computing = 10 * s});
  return out;
}

TEST(SlowRanks, AreNamedWithHowMuch) {
  const auto found = slow_ranks(computing({0.12, 0.13, 0.11, 1.2}));
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].first, 3U);
  EXPECT_EQ(
      found[0].second,
      "rank 3 is 10.0x slower than the median of the others: 1.2 s of computing per step against 0.12 s");
  EXPECT_EQ(slow_ranks(computing({1, 0.1}))[0].first, 0U) << "of two ranks the other one is the reference";
  for (const auto& even : {std::vector<double>{1}, {1, 1.9}, {0.001, 0.003}, {1, 1, 1, 1.5}})
    EXPECT_TRUE(slow_ranks(computing(even)).empty());
}

TEST(Balance, TablesHaveOneRowARank) {
  const std::vector<RankWork> ranks{{2, 300, 200, 17, 4096, 2048, 1.5, 0.25},
                                    {2, 100, 0, 0, 2048, 4096, 0.5, 1.25}};
  const auto table = table_of(ranks);
  ASSERT_EQ(table.size(), 3U);
  EXPECT_EQ(table[1],
            "    0          300          200        17     4.00 KiB     2.00 KiB      1.50 s     0.25 s");
  EXPECT_EQ(table[0].size(), table[2].size());
  const auto values = to_json(ranks);
  EXPECT_EQ(values.at("tokens"), nlohmann::json({300, 100}));
  EXPECT_EQ(values.at("waiting_seconds"), nlohmann::json({0.25, 1.25}));
}

}  // namespace
}  // namespace kinora::core
