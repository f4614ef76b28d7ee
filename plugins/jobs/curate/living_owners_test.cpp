// Tests that a run without a lease sees which processes share its inputs, and waits no longer than it must.
#include "plugins/jobs/curate/living_owners.hpp"

#include <chrono>
#include <filesystem>
#include <thread>
#include <unistd.h>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/runtime/runtime.hpp"
#include "plugins/jobs/curate/lease_store.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using testing::HasSubstr;

class LivingOwners : public testing::Test {
 protected:
  LivingOwners() : folder_(fs::path(testing::TempDir()) / fmt::format("living-owners-{}", ::getpid())) {
    fs::remove_all(folder_);
    runtime_ = or_throw(Runtime::start({.plugin_dirs = {}, .log_level = "error"}));
    store_ = lease_store(or_throw(runtime_->io().store("file")), leases_folder().string());
  }
  ~LivingOwners() override { fs::remove_all(folder_); }

  fs::path leases_folder() const { return folder_ / "0123456789abcdef/leases"; }
  RangeLeases leases_of(const std::string& owner, milliseconds term) {
    return RangeLeases(*store_, {.owner = owner, .inputs = 100, .per_lease = 10, .term = term});
  }
  Status look() const { return has_no_living_owner("clips", folder_); }

  const fs::path folder_;
  std::unique_ptr<Runtime> runtime_;
  std::unique_ptr<LeaseStore> store_;
};

TEST_F(LivingOwners, AreNoneWhereNoLeaseIsHeld) {
  EXPECT_TRUE(look());
  RangeLeases leases = leases_of("a", std::chrono::hours(24));
  auto done = leases.take(), free = leases.take();
  ASSERT_TRUE(done && free);
  EXPECT_TRUE(leases.finish(*done));
  leases.give_back(*free);
  store_->put("plan.json", "{\"v\":1}", "");
  store_->put("000000000990.json", "no lease", "");
  EXPECT_TRUE(look());
}

TEST_F(LivingOwners, AreNamedAtTheirNextBeat) {
  RangeLeases leases = leases_of("node7-4711-00ff", std::chrono::hours(24));
  auto held = leases.take();
  ASSERT_TRUE(held);
  std::jthread beats([&](const std::stop_token& end) {
    for (uint64_t at = 0; !end.stop_requested(); ++at) {
      EXPECT_TRUE(leases.renew(*held, at % 10));
      std::this_thread::sleep_for(milliseconds(20));
    }
  });
  const Status found = look();
  ASSERT_FALSE(found);
  EXPECT_THAT(found.failure().message,
              HasSubstr("process node7-4711-00ff shares its inputs by leases in " + folder_.string()));
  for (const auto& file : fs::directory_iterator(folder_))
    EXPECT_EQ(file.path().filename(), "0123456789abcdef") << "the look leaves nothing";
}

TEST_F(LivingOwners, ThatWereKilledAreWaitedForTwoTerms) {
  const auto begin = Clock::now();
  ASSERT_TRUE(leases_of("killed", milliseconds(300)).take());
  EXPECT_TRUE(look());
  EXPECT_GT(Clock::now() - begin, milliseconds(550));
}

TEST_F(LivingOwners, ThatWereKilledLongAgoAreNotWaitedFor) {
  ASSERT_TRUE(leases_of("killed", std::chrono::hours(1)).take());
  for (const auto& lease : fs::directory_iterator(leases_folder()))
    fs::last_write_time(lease, fs::file_time_type::clock::now() - std::chrono::minutes(121));
  EXPECT_TRUE(look());  // else for two hours
}

}  // namespace
}  // namespace kinora::core
