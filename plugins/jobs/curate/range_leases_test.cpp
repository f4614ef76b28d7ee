// Leases of many processes: simulated ones in virtual time, and real ones that are killed and stopped.
#include "plugins/jobs/curate/range_leases.hpp"

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>
#include <thread>
#include <unistd.h>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include "core/runtime/runtime.hpp"
#include "kinora/error.hpp"
#include "plugins/jobs/curate/lease_store.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using testing::HasSubstr;

// Objects in memory, whose tag is a counter. `fails` may throw before or after a write.
class StoreInMemory final : public LeaseStore {
 public:
  std::optional<Object> read(const std::string& name) override {
    const auto at = objects.find(name);
    return at == objects.end() ? std::nullopt : std::optional(at->second);
  }
  std::optional<std::string> put(const std::string& name, const std::string& bytes,
                                 const std::string& tag) override {
    const bool loses_request = draw() % 100 < faults, loses_answer = draw() % 100 < faults;
    if (loses_request) throw Error(KINORA_ERROR_IO, "500");
    const auto at = objects.find(name);
    const std::string now = at == objects.end() ? "" : at->second.tag;
    if (now != tag && !(ignores_conditions && !tag.empty()) && !(creates_twice && tag.empty()))
      return std::nullopt;
    objects[name] = {bytes, std::to_string(++writes)};
    if (loses_answer) throw Error(KINORA_ERROR_IO, "the answer is lost");
    return objects[name].tag;
  }
  bool remove(const std::string& name, const std::string&) override { return objects.erase(name) > 0; }

  std::map<std::string, Object> objects;
  int64_t writes = 0;
  uint64_t faults = 0;  // percent of writes that throw
  bool ignores_conditions = false, creates_twice = false;
  std::mt19937_64 draw{1};
};

using LeaseClock = RangeLeases::Clock;
constexpr milliseconds kTerm(1000);

// One process of a simulation, which does an input a step. Its clock differs from the others'.
class SimulatedProcess {
 public:
  SimulatedProcess(LeaseStore& store, const LeaseClock::time_point& now, std::string owner, uint64_t inputs,
                   std::chrono::hours ahead)
      : now_(now),
        ahead_(ahead),
        leases_(store,
                {.owner = std::move(owner), .inputs = inputs, .per_lease = 100, .term = kTerm, .now = [this] {
                   return now_ + ahead_;
                 }}) {}

  // parts: the inputs that are done below a part's name.
  void step(std::map<std::string, std::set<uint64_t>>& parts, std::mt19937_64& draw) {
    if (now_ < wakes_) return;
    try {
      if (!held_) return begin(parts, draw);
      if (now_ >= beats_) {
        beats_ = now_ + kTerm / 3;
        if (!leases_.renew(*held_, at_)) return held_.reset();
      }
      if (at_ < held_->lease.end) {
        parts[held_->lease.part()].insert(at_++);
      } else {
        leases_.finish(*held_);  // false: another process has the range
        held_.reset();
      }
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), KINORA_ERROR_IO) << e.what();  // tried again in the next step
    }
  }
  void stop_for(milliseconds time) { wakes_ = now_ + time; }
  bool sees_the_end() const { return leases_.are_all_done(); }
  RangeLeases& leases() { return leases_; }

 private:
  void begin(std::map<std::string, std::set<uint64_t>>& parts, std::mt19937_64& draw) {
    if (draw() % 40 != 0) return;
    held_ = leases_.take();
    if (!held_) return;
    EXPECT_TRUE(parts.try_emplace(held_->lease.part()).second) << "two processes own " << held_->lease.part();
    at_ = held_->lease.first;
    beats_ = now_ + kTerm / 3;
  }
  const LeaseClock::time_point& now_;
  const std::chrono::hours ahead_;
  RangeLeases leases_;
  std::optional<HeldRange> held_;
  uint64_t at_ = 0;
  LeaseClock::time_point beats_{}, wakes_{};
};

struct Simulation {
  uint64_t seed = 1, faults = 0;
  bool has_kills = false, has_stops = false;
  int took_over = 0;

  // Runs to the end and checks that the done leases have every input once, each done below its part.
  void run() {
    constexpr uint64_t kInputs = 1030;  // the last range is short
    constexpr size_t kProcesses = 200;
    StoreInMemory store;
    store.faults = faults;
    std::mt19937_64 draw(seed);
    LeaseClock::time_point now{std::chrono::hours(1000)};
    std::map<std::string, std::set<uint64_t>> parts;
    std::vector<std::unique_ptr<SimulatedProcess>> all(kProcesses);
    int born = 0;
    const auto bear = [&] {
      const std::chrono::hours ahead(born % 3 - 1);
      return std::make_unique<SimulatedProcess>(store, now, fmt::format("p{}", born++), kInputs, ahead);
    };
    for (auto& one : all) one = bear();
    const auto sees_the_end = [](const auto& one) { return one->sees_the_end(); };
    for (int tick = 0; std::none_of(all.begin(), all.end(), sees_the_end); ++tick) {
      ASSERT_LT(tick, 3000) << "the work does not end";
      now += kTerm / 20;
      for (auto& one : all) {
        const uint64_t fate = draw() % 500;
        if (has_kills && fate == 0 && tick < 200) one = bear();
        if (has_stops && fate == 1) one->stop_for(kTerm * 3 + milliseconds(draw() % 1000));
        one->step(parts, draw);
      }
    }
    store.faults = 0;
    uint64_t next = 0;
    bear()->leases().each_done([&](const RangeLease& lease) {
      EXPECT_EQ(lease.first, next);
      for (uint64_t i = lease.first; i < lease.end; ++i)
        EXPECT_TRUE(parts[lease.part()].contains(i)) << i << " is not done in " << lease.part();
      took_over += lease.epoch > 1;
      next = lease.end;
    });
    EXPECT_EQ(next, kInputs);
  }
};

TEST(RangeLeases, GiveEveryInputToOneProcessWhoseClocksDiffer) {
  Simulation quiet;
  quiet.run();
  EXPECT_EQ(quiet.took_over, 0) << "a process that lives lost its range";
}

TEST(RangeLeases, SurviveKillsStopsAndAServerThatFails) {
  for (uint64_t seed = 1; seed <= 2; ++seed) {
    Simulation rough{.seed = seed, .faults = 5, .has_kills = true, .has_stops = true};
    rough.run();
    EXPECT_GT(rough.took_over, 0) << "nothing was tried";
  }
}

TEST(RangeLeases, AreTakenOverAfterTwoTermsWithoutABeatAndNotBefore) {
  StoreInMemory store;
  LeaseClock::time_point now{std::chrono::hours(1)};
  const auto clock = [&] { return now; };
  RangeLeases first(store, {.owner = "a", .inputs = 3, .term = kTerm, .now = clock});
  RangeLeases second(store, {.owner = "b", .inputs = 3, .term = kTerm, .now = clock});
  auto held = first.take();
  ASSERT_TRUE(held);
  for (int i = 0; i < 5; ++i) {  // each look sees another beat
    EXPECT_FALSE(second.take());
    now += kTerm * 2;
    EXPECT_TRUE(first.renew(*held, 0));
  }
  EXPECT_FALSE(second.take());
  now += kTerm * 2;
  EXPECT_FALSE(second.take()) << "two terms are not over";
  now += milliseconds(1);
  auto taken = second.take();
  ASSERT_TRUE(taken);
  EXPECT_EQ(taken->lease.part(), "000000000000.2");
  EXPECT_FALSE(first.renew(*held, 1));
  EXPECT_FALSE(first.finish(*held)) << "an earlier owner must not say that the range is done";
  EXPECT_TRUE(second.finish(*taken));
  EXPECT_FALSE(first.take());
  EXPECT_TRUE(first.are_all_done());
}

TEST(RangeLeases, GiveWhatTheirOwnerHasNotBegunToAnIdleProcess) {
  StoreInMemory store;
  RangeLeases busy(store, {.owner = "a", .inputs = 100}), idle(store, {.owner = "b", .inputs = 100});
  auto held = busy.take();
  ASSERT_TRUE(held);
  ASSERT_TRUE(busy.renew(*held, 20));
  EXPECT_FALSE(idle.take()) << "it looks first";
  const auto tail = idle.take();
  ASSERT_TRUE(tail);
  EXPECT_EQ(tail->lease.first, 60u);
  EXPECT_EQ(tail->lease.end, 100u);
  EXPECT_TRUE(busy.renew(*held, 30));
  EXPECT_EQ(held->lease.end, 60u);
}

TEST(RangeLeases, ThatAreGivenBackAreTakenAtOnce) {
  StoreInMemory store;
  RangeLeases first(store, {.owner = "a", .inputs = 3}), second(store, {.owner = "b", .inputs = 3});
  auto held = first.take();
  ASSERT_TRUE(held);
  first.give_back(*held);
  const auto taken = second.take();
  ASSERT_TRUE(taken);
  EXPECT_EQ(taken->lease.epoch, 2);
}

TEST(RangeLeases, RefuseWhatIsNoLease) {
  for (const char* text : {"", "[]", "{}", "{\"v\":2}",
                           R"({"v":1,"first":0,"end":4,"owner":"a","epoch":1,"beat":0,"state":"held"})",
                           R"({"v":1,"first":0,"end":0,"owner":"a","epoch":1,"beat":0,"state":"held"})",
                           R"({"v":1,"first":1,"end":3,"owner":"a","epoch":1,"beat":0,"state":"held"})",
                           R"({"v":1,"first":0,"end":3,"owner":"a","epoch":0,"beat":0,"state":"held"})",
                           R"({"v":1,"first":0,"end":3,"owner":"a","epoch":1,"beat":0,"state":"mine"})"}) {
    StoreInMemory store;
    store.objects["000000000000.json"] = {text, "1"};
    RangeLeases leases(store, {.owner = "a", .inputs = 3});
    EXPECT_THROW(leases.take(), Error) << text;
  }
}

TEST(RangeLeases, RefuseAServerThatIgnoresConditions) {
  StoreInMemory good;
  require_conditions(good, "me");
  EXPECT_TRUE(good.objects.empty()) << "the probe leaves nothing";
  const auto said_by = [](StoreInMemory& store) {
    try {
      require_conditions(store, "me");
      return std::string("nothing");
    } catch (const Error& e) {
      return std::string(e.what());
    }
  };
  StoreInMemory replaces, creates;
  replaces.ignores_conditions = creates.creates_twice = true;
  EXPECT_THAT(said_by(replaces), HasSubstr("it replaces an object by an old tag"));
  EXPECT_THAT(said_by(creates), HasSubstr("it creates an object that exists"));
}

// The real ones, on files. A child writes a line an input into the file of its part.
class RealProcesses : public testing::Test {
 protected:
  RealProcesses() : folder_(fs::path(testing::TempDir()) / fmt::format("range-leases-{}", ::getpid())) {
    fs::remove_all(folder_);
    fs::create_directories(folder_ / "parts");
    runtime_ = or_throw(Runtime::start({.plugin_dirs = {}, .log_level = "error"}));
    store_ = lease_store(or_throw(runtime_->io().store("file")), (folder_ / "leases").string());
  }
  ~RealProcesses() override { fs::remove_all(folder_); }

  RangeLeases::Options options(const std::string& owner) const {
    return {.owner = owner, .inputs = 200, .per_lease = 20, .term = milliseconds(200)};
  }
  void work(const std::string& owner) {
    RangeLeases leases(*store_, options(owner));
    for (;;) {
      auto held = leases.take();
      if (!held && leases.are_all_done()) return;
      if (held)
        work_on(leases, *held);
      else
        std::this_thread::sleep_for(milliseconds(20));
    }
  }
  void work_on(RangeLeases& leases, HeldRange& held) {
    const std::string part = held.lease.part();
    auto beats = LeaseClock::now();
    for (uint64_t at = held.lease.first; at < held.lease.end; ++at) {
      std::ofstream(folder_ / "parts" / part, std::ios::app) << at << "\n";
      std::this_thread::sleep_for(milliseconds(3));
      if (LeaseClock::now() - beats < milliseconds(60)) continue;
      beats = LeaseClock::now();
      if (!answer_of([&] { return leases.renew(held, at + 1); })) return;
    }
    answer_of([&] { return leases.finish(held); });
  }
  // A process that stands still may hold the lock of a lease for a while.
  static bool answer_of(const std::function<bool()>& f) {
    for (;;) try {
        return f();
      } catch (const Error& e) {
        if (e.code() != KINORA_ERROR_IO) throw;
      }
  }
  std::multiset<uint64_t> done_in(const std::string& part) const {
    std::ifstream in(folder_ / "parts" / part);
    std::multiset<uint64_t> out;
    for (uint64_t at = 0; in >> at;) out.insert(at);
    return out;
  }
  const fs::path folder_;
  std::unique_ptr<Runtime> runtime_;
  std::unique_ptr<LeaseStore> store_;
};

TEST_F(RealProcesses, DoEveryInputThoughSomeAreKilledAndOneStandsStill) {
  require_conditions(*store_, "test");
  std::vector<pid_t> children;
  for (int i = 0; i < 8; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      try {
        work(fmt::format("child-{}", i));
      } catch (const std::exception&) {
        ::_exit(1);
      }
      ::_exit(0);
    }
    children.push_back(child);
  }
  std::this_thread::sleep_for(milliseconds(40));
  ::kill(children[0], SIGKILL);
  ::kill(children[1], SIGKILL);
  ::kill(children[2], SIGSTOP);
  std::this_thread::sleep_for(milliseconds(700));  // more than three terms
  ::kill(children[2], SIGCONT);
  for (size_t i = 0; i < children.size(); ++i) {
    int status = 0;
    ::waitpid(children[i], &status, 0);
    if (i >= 2) {
      EXPECT_EQ(status, 0) << i;
    }
  }
  uint64_t next = 0;
  RangeLeases(*store_, options("reader")).each_done([&](const RangeLease& lease) {
    const auto done = done_in(lease.part());
    for (uint64_t i = lease.first; i < lease.end; ++i)
      EXPECT_EQ(done.count(i), 1u) << i << " of " << lease.part();
    next = lease.end;
  });
  EXPECT_EQ(next, 200u);
}

}  // namespace
}  // namespace kinora::core
