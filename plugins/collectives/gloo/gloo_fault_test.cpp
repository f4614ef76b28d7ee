// A rank that is missing, or does something else, must give the others an error in time that names it.
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <signal.h>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "kinora/strategy.hpp"
#include "plugins/collectives/gloo/gloo_testing.hpp"

namespace kinora {
namespace {

using at::Tensor;
using namespace test;  // NOLINT(google-build-using-namespace)

// Between meetings only the time limit ends a wait, however slow the machine is.
constexpr int32_t kLimit = 2000;

TEST(Gloo, AMissingRankIsATimeoutThatNamesTransferGroupAndRank) {
  on_ranks(3, [](const Rank& me) {
    me.meet("start");
    const World w(me, kLimit);
    auto owner = w.mesh(me, {{"dp", 3}});
    const Group<Tensor> g = Mesh<Tensor>(owner.abi()).group("dp");
    const Tensor x = at::ones({4}, at::kDouble);
    g.sum(x);
    me.meet("sum");
    if (me.rank == 1) return me.meet("end");
    const Failed f = failure_of([&] { g.gather(x, 0); });
    me.meet("end");
    EXPECT_EQ(f.code, KINORA_ERROR_TIMEOUT) << f.message;
    for (const char* part : {"gather #2", "group 'dp'", "2000 ms", "rank 1 did not take part"})
      EXPECT_NE(f.message.find(part), std::string::npos) << part << " is missing in: " << f.message;
    EXPECT_EQ(f.message.find("ranks"), std::string::npos) << "a healthy rank is blamed: " << f.message;
    EXPECT_GT(f.seconds, 1.5);
  });
}

TEST(Gloo, AMessageThatNobodySendsIsATimeoutThatNamesItsSender) {
  on_ranks(3, [](const Rank& me) {
    me.meet("start");
    const World w(me, kLimit);
    auto owner = w.mesh(me, {{"pp", 3}});
    const kinora_group* g = owner.group("pp");
    if (me.rank != 0) return me.meet("end");
    const Failed f =
        failure_of([&] { Pending(g, transfer(KINORA_OP_RECV, at::empty({2}), 0, 0, 2, 5)).finish(); });
    me.meet("end");
    EXPECT_EQ(f.code, KINORA_ERROR_TIMEOUT);
    EXPECT_NE(f.message.find("recv #1 from rank 2 with tag 5 of group 'pp'"), std::string::npos) << f.message;
    EXPECT_NE(f.message.find("rank 2 did not take part"), std::string::npos) << f.message;
  });
}

// Of each thread of this process, whether a write to a closed connection would end the process.
std::map<std::string, bool> threads_that_take_sigpipe() {
  std::map<std::string, bool> out;
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream status(thread.path() / "status");
    for (std::string line; std::getline(status, line);)
      if (line.starts_with("SigBlk:"))
        out[thread.path().filename()] = (std::stoull(line.substr(7), nullptr, 16) >> (SIGPIPE - 1) & 1) == 0;
  }
  return out;
}

TEST(Gloo, ARankThatLeavesRaisesNoSignalInTheOthers) {
  on_ranks(2, [](const Rank& me) {
    const World w(me, kLimit);
    const auto before = threads_that_take_sigpipe();
    auto owner = w.mesh(me, {{"dp", 2}});
    Mesh<Tensor>(owner.abi()).group("dp").sum(at::ones({4}));
    const auto after = threads_that_take_sigpipe();
    EXPECT_GT(after.size(), before.size());
    for (const auto& [thread, takes] : after)
      EXPECT_TRUE(before.contains(thread) || !takes) << thread;
    me.meet("end");
  });
}

TEST(Gloo, ATransferWithANeedThatItDoesNotKnowIsRefused) {
  on_ranks(2, [](const Rank& me) {
    const World w(me, kLimit);
    auto owner = w.mesh(me, {{"dp", 2}});
    const kinora_group* g = owner.group("dp");
    const Tensor x = at::ones({2});
    kinora_transfer newer = transfer(KINORA_OP_ALL_REDUCE, x);
    newer.needs = 4;
    const Failed f = failure_of([&] { Pending(g, newer).finish(); });
    EXPECT_EQ(f.code, KINORA_ERROR_UNSUPPORTED) << f.message;
    EXPECT_NE(f.message.find("needs of a transfer is 4"), std::string::npos) << f.message;
    newer.needs = 0, newer.reserved = 5;
    const Failed again = failure_of([&] { Pending(g, newer).finish(); });
    EXPECT_EQ(again.code, KINORA_ERROR_UNSUPPORTED) << again.message;
    EXPECT_NE(again.message.find("of a transfer is 5"), std::string::npos) << again.message;
    newer.needs = 4;
    newer.struct_size = offsetof(kinora_transfer, needs);  // an older caller: the member is beyond its struct
    Pending(g, newer).finish();
  });
}

// Rank 3 waits for 2, which waits for 1, which waits for 0, which is missing: all report it, and at the time
// of the first. Their own limits would end later, or would name a healthy neighbour.
TEST(Gloo, AllRanksNameTheOneThatTheyWaitForThroughOthers) {
  on_ranks(4, [](const Rank& me) {
    me.meet("start");
    const World w(me, 3 * kLimit);
    auto owner = w.mesh(me, {{"pp", 4}});
    const kinora_group* g = owner.group("pp");
    Group<Tensor>(g).barrier();
    me.meet("in step");
    if (me.rank == 0) return me.meet("end");
    std::this_thread::sleep_for(std::chrono::milliseconds(me.rank == 1 ? 0 : 3000));
    const Failed f = failure_of(
        [&] { Pending(g, transfer(KINORA_OP_RECV, at::empty({2}), 0, 0, me.rank - 1, 5)).finish(); });
    me.meet("end");
    EXPECT_EQ(f.code, KINORA_ERROR_TIMEOUT) << f.message;
    EXPECT_NE(f.message.find("; rank 0 did not take part"), std::string::npos) << f.message;
    const char* through = me.rank == 3 ? "rank 1 is in recv #1 from rank 0 with tag 5 of group 'pp'" : "";
    EXPECT_NE(f.message.find(through), std::string::npos) << f.message;
    EXPECT_LT(f.seconds, me.rank == 1 ? 9 : 5.9) << "its own limit was over";
  });
}

// Two of them are in a sum of other groups, and one waits for the other.
TEST(Gloo, AMissingRankOfAnotherGroupIsNamed) {
  on_ranks(4, [](const Rank& me) {
    me.meet("start");
    const World w(me, kLimit);
    auto owner = w.mesh(me, {{"dp", 2}, {"tp", 2}});  // dp: 0 2, 1 3; tp: 0 1, 2 3
    const Mesh<Tensor> mesh(owner.abi());
    const Group<Tensor> dp = mesh.group("dp"), tp = mesh.group("tp");
    me.meet("in step");
    if (me.rank == 3) return me.meet("end");
    const Failed f = failure_of([&] { (me.rank == 0 ? dp : tp).sum(at::ones({4})); });
    me.meet("end");
    EXPECT_NE(f.message.find("rank 3 did not take part"), std::string::npos) << me.rank << f.message;
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
    EXPECT_EQ(f.code, KINORA_ERROR_IO) << f.message;
    EXPECT_NE(f.message.find("sum #2"), std::string::npos) << f.message;
    EXPECT_NE(f.message.find("rank 2 did not take part"), std::string::npos) << f.message;
    EXPECT_LT(f.seconds, 15) << "its limit is 20 s";
  });
}

// A rank that has connected and needs nothing from the others must not disturb their connecting.
TEST(Gloo, ARankThatLeavesAtOnceLeavesNobodyUnconnected) {
  on_ranks(8, [](const Rank& me) {
    for (int round = 0; round < 40; ++round) {
      const World w(me, 20000, me.file() + ".round" + std::to_string(round));
      auto owner = w.mesh(me, {{"dp", me.size}});
      const Failed f = failure_of([&] { Mesh<Tensor>(owner.abi()).group("dp"); });
      ASSERT_EQ(f.code, KINORA_OK) << round << f.message;
    }
  });
}

TEST(Gloo, AWorldThatDoesNotFillSaysWhoIsMissing) {
  on_ranks(2, [](const Rank& me) {
    for (const std::string& uri : {me.file(), me.tcp()}) {
      me.meet(uri.substr(0, 3));
      const Failed f = failure_of([&] { World w({me.rank, 3, me.folder, me.port}, kLimit, uri); });
      EXPECT_EQ(f.code, KINORA_ERROR_TIMEOUT);
      if (me.rank != 0) continue;
      EXPECT_NE(f.message.find("of 3 ranks these did not join at "), std::string::npos) << f.message;
      EXPECT_NE(f.message.find(" within 2000 ms: 2; "), std::string::npos) << f.message;
    }
  });
}

// The codes of both ranks, in whichever order they came.
std::multiset<int32_t> codes_of_both(const Rank& me, int32_t mine) {
  const auto file = [&](int rank) { return me.folder + "/code-" + std::to_string(rank); };
  std::ofstream(file(me.rank)) << mine;
  me.meet("codes");
  std::multiset<int32_t> out;
  for (const int rank : {0, 1}) {
    int32_t code = 0;
    std::ifstream(file(rank)) >> code;
    out.insert(code);
  }
  return out;
}

const std::multiset<int32_t> kOneIsRefused{KINORA_ERROR_INVALID, KINORA_ERROR_TIMEOUT};

TEST(Gloo, TwoLaunchesAtOnePlaceDoNotMix) {
  on_ranks(2, [](const Rank& me) {
    const Failed f = failure_of([&] { World w({1, 3, me.folder, me.port}, kLimit); });
    EXPECT_EQ(codes_of_both(me, f.code), kOneIsRefused) << f.message;
    if (f.code != KINORA_ERROR_INVALID) return;
    EXPECT_NE(f.message.find("rank 1 is already at "), std::string::npos) << f.message;
  });
}

TEST(Gloo, RanksOfOtherNumbersDoNotMeet) {
  on_ranks(2, [](const Rank& me) {
    const Failed f = failure_of([&] {
      World w({me.rank, 2 + me.rank, me.folder, me.port}, kLimit, me.tcp());
    });
    EXPECT_EQ(codes_of_both(me, f.code), kOneIsRefused) << f.message;
    if (f.code != KINORA_ERROR_INVALID) return;
    const std::string which = me.rank == 0 ? "rank 0 is one of 2" : "rank 1 is one of 3";
    EXPECT_NE(f.message.find(which + " ranks, and another at "), std::string::npos) << f.message;
  });
}

// A run that is asked to stop half a second after it began.
struct Stopped {
  std::chrono::steady_clock::time_point at =
      std::chrono::steady_clock::now() + std::chrono::milliseconds(500);
  kinora_run run{};
  Stopped() {
    run.struct_size = sizeof run;
    run.self = this;
    run.cancelled = [](void* self) -> int32_t {
      return std::chrono::steady_clock::now() < static_cast<Stopped*>(self)->at ? KINORA_OK
                                                                                : KINORA_ERROR_CANCELLED;
    };
  }
};

TEST(Gloo, AWaitForOthersEndsWhenTheRunIsAskedToStop) {
  on_ranks(2, [](const Rank& me) {
    // At the last address no process listens.
    for (const auto& [round, uri] :
         {std::pair("a file", me.file()), {"all", me.tcp()}, {"one", "tcp://127.0.0.1:1"}}) {
      me.meet(round);
      if (round == std::string("one") && me.rank == 0) continue;
      const Stopped stopped;
      const Failed f = failure_of([&] {
        World w({me.rank, 3, me.folder, me.port}, 60000, uri, core::json::object(), &stopped.run);
      });
      EXPECT_LT(f.seconds, 30) << "its limit is 60 s";
      const bool has_store = round != std::string("all") || me.rank == 0;  // rank 0 serves the store
      EXPECT_TRUE(f.code == KINORA_ERROR_CANCELLED || (!has_store && f.code == KINORA_ERROR_TIMEOUT))
          << f.message;
    }
  });
}

TEST(Gloo, ARankThatFindsNobodySaysWhatIsWrongThere) {
  const auto refused = [](const std::string& uri) {
    testing::internal::CaptureStderr();
    const Failed f = failure_of([&] { World({1, 2, "", 0}, 300, uri); });
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "") << "libtorch's log is shown";
    EXPECT_EQ(f.code, KINORA_ERROR_TIMEOUT) << f.message;
    return f.message;
  };
  EXPECT_EQ(refused("tcp://127.0.0.1:1"),
            "gloo: no process listens at 127.0.0.1:1 after 300 ms; rank 0 must be started there");
  EXPECT_NE(refused("tcp://no-such-host.invalid:1").find("the host name 'no-such-host.invalid' is not known"),
            std::string::npos);
}

TEST(Gloo, RefusesWhatWouldHangTheOthers) {
  on_ranks(2, [](const Rank& me) {
    const World w(me);
    auto owner = w.mesh(me, {{"dp", 2}});
    const kinora_group* g = owner.group("dp");
    const auto invalid = [&](const kinora_transfer& t, const char* part) {
      const Failed f = failure_of([&] { Pending(g, t).finish(); });
      EXPECT_EQ(f.code, KINORA_ERROR_INVALID);
      EXPECT_NE(f.message.find(part), std::string::npos) << f.message;
    };
    const Tensor x = at::ones({3, 4});
    invalid(transfer(KINORA_OP_REDUCE_SCATTER, x, 0), "dimension 0 of size 3 does not divide by 2 ranks");
    invalid(transfer(KINORA_OP_ALL_TO_ALL, x, 0, 1), "does not divide");
    invalid(transfer(KINORA_OP_ALL_REDUCE, at::ones({2}, at::kBool)), "cannot combine Bool");
    invalid(transfer(KINORA_OP_BROADCAST, x, 0, 0, 2), "no rank 2 in a group of 2");
    invalid(transfer(KINORA_OP_SEND, x, 0, 0, me.rank), "to itself");
    EXPECT_EQ(failure_of([&] { owner.group("tq"); }).code, KINORA_ERROR_INVALID);
    EXPECT_TRUE(Group<Tensor>(g).sum(x).equal(2 * x));  // the ranks are still in step
  });
  for (const char* uri : {"", "file://relative", "tcp://host", "tcp://host:0", "tcp://host:99999", "/tmp/x",
                          "store://host:1", "store://host/part", "store://:1/part"})
    EXPECT_EQ(failure_of([&] {
                World({0, 2, "", 0}, 1000, uri[0] ? uri : "-");
              }).code,
              KINORA_ERROR_INVALID)
        << uri;
}

}  // namespace
}  // namespace kinora
