#include "apps/command/lease.hpp"

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "core/base/cancel.hpp"
#include "core/io/atomic_file.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class LeaseTest : public testing::Test {
 protected:
  void SetUp() override {
    setenv("KINORA_LEASE_SECONDS", "1", 1);
    std::string name = (fs::temp_directory_path() / "kinora-lease-XXXXXX").string();
    out_ = mkdtemp(name.data());
  }
  void TearDown() override {
    unsetenv("KINORA_LEASE_SECONDS");
    cancel(false);
    fs::remove_all(out_);
  }
  static LaunchPlace attempt(int64_t number) { return {.job = "7", .requeues = number}; }
  std::vector<std::string> leases() const {
    std::vector<std::string> out;
    for (const auto& entry : fs::directory_iterator(out_))
      if (const auto name = entry.path().filename().string(); name.starts_with(".lease-"))
        out.push_back(name);
    return out;
  }
  fs::path out_;
};

TEST_F(LeaseTest, CountsWhoeverHasHadIt) {
  for (const char* file : {".lease-000001", ".lease-000002", ".lease-000003"}) {
    const auto lease = Lease::take(out_, {});
    ASSERT_TRUE(lease) << lease.failure().message;
    EXPECT_THAT(leases(), testing::ElementsAre(file));
    EXPECT_TRUE((*lease)->check());
  }
}

// A copy that stands still between its last look and the rename of what it has written.
TEST_F(LeaseTest, WhatTheOlderCopyHasWrittenNeverAppears) {
  auto older = Lease::take(out_, attempt(0));
  ASSERT_TRUE(older);
  fs::create_directories(out_ / "dit/checkpoints");
  auto file = AtomicFile::create(out_ / "dit/job.json");
  auto folder = AtomicFolder::create(out_ / "dit/checkpoints/step-000010");
  ASSERT_TRUE(file && folder && file->write("{}"));
  auto newer = Lease::take(out_, attempt(1));
  ASSERT_TRUE(newer) << newer.failure().message;
  EXPECT_FALSE(fs::exists(folder->temporary())) << "nothing is left to rename";
  for (const Status& status : {file->commit(), folder->commit(true), may_publish(out_ / "dit/x")}) {
    ASSERT_FALSE(status);
    EXPECT_FALSE(fs::exists(out_ / "dit/job.json"));
  }
  const auto status = (*older)->check();
  ASSERT_FALSE(status);
  EXPECT_THAT(status.failure().message, HasSubstr("another copy of this run has taken over (epoch 2 on "));
  EXPECT_TRUE((*older)->is_lost());
  EXPECT_TRUE(cancelled()) << "the run of the older one stops";
  EXPECT_TRUE((*newer)->check());
  older->reset();
  EXPECT_TRUE(may_publish(out_ / "dit/x"));
  EXPECT_TRUE(write_file_atomically(out_ / "dit/job.json", "{}"));
}

TEST_F(LeaseTest, AnEarlierAttemptBeginsNothing) {
  { const auto later = Lease::take(out_, attempt(2)); }
  for (const int64_t number : {0, 1}) {
    const auto taken = Lease::take(out_, attempt(number));
    ASSERT_FALSE(taken);
    EXPECT_EQ(taken.failure().code, KINORA_ERROR_INVALID);
    EXPECT_THAT(taken.failure().message, HasSubstr("attempt 2 of Slurm job 7 has taken this run over"));
    EXPECT_FALSE(Lease::may_take(out_, attempt(number)));
  }
  EXPECT_TRUE(Lease::take(out_, attempt(2)));
  EXPECT_TRUE(Lease::take(out_, {.job = "8"}));
}

TEST_F(LeaseTest, OtherRanksStopWithALaterAttempt) {
  EXPECT_EQ(Lease::follow(out_, {}), nullptr);
  const auto rank = Lease::follow(out_, attempt(0));
  ASSERT_TRUE(rank->check());
  const auto first = Lease::take(out_, attempt(0));
  ASSERT_TRUE(rank->check());
  const auto later = Lease::take(out_, attempt(1));
  EXPECT_FALSE(rank->check());
}

TEST_F(LeaseTest, AFolderOfOneThatRunsIsRefused) {
  const auto mine = Lease::take(out_, {});
  const auto second = Lease::take(out_, {});
  ASSERT_FALSE(second);
  EXPECT_THAT(second.failure().message,
              HasSubstr("another kinora run is writing to " + out_.string() + " (process "));
  EXPECT_TRUE((*mine)->check());
}

TEST_F(LeaseTest, WhatIsNoLeaseIsLeftAlone) {
  std::ofstream(out_ / ".lease-notes") << "mine";
  std::ofstream(out_ / ".lease-000004");  // of a copy that was killed before it wrote
  const auto lease = Lease::take(out_, {});
  ASSERT_TRUE(lease) << lease.failure().message;
  EXPECT_THAT(leases(), testing::UnorderedElementsAre(".lease-000005", ".lease-notes"));
}

// A larger one could not be followed by another.
TEST_F(LeaseTest, AnEpochHasAtMostTwelveDigits) {
  const std::vector<std::string> none{".lease-9223372036854775807", ".lease-999999999999", ".lease--3"};
  for (const auto& name : none) std::ofstream(out_ / name) << "";
  const auto lease = Lease::take(out_, {});
  ASSERT_TRUE(lease) << lease.failure().message;
  EXPECT_TRUE((*lease)->check());
  auto expected = none;
  expected.push_back(".lease-000001");
  EXPECT_THAT(leases(), testing::UnorderedElementsAreArray(expected));
}

// Reading it would wait for a writer that never comes.
TEST_F(LeaseTest, APipeIsNoLeaseOfARun) {
  ASSERT_EQ(mkfifo((out_ / ".lease-000004").c_str(), 0600), 0);
  const auto lease = Lease::take(out_, {});
  ASSERT_TRUE(lease) << lease.failure().message;
  EXPECT_THAT(leases(), testing::ElementsAre(".lease-000005"));
}

TEST_F(LeaseTest, OnAFullDiskNothingIsLeft) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit few{10, before.rlim_max};  // bytes of a file
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &few), 0);
  const auto lease = Lease::take(out_, {});
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  ASSERT_FALSE(lease);
  EXPECT_THAT(lease.failure().message, HasSubstr("free some space"));
  EXPECT_THAT(leases(), testing::IsEmpty());
}

TEST_F(LeaseTest, ItsLengthIsANumberOfSeconds) {
  for (const char* length : {"0", "-3", "soon", "1e9", "nan"}) {
    setenv("KINORA_LEASE_SECONDS", length, 1);
    EXPECT_THROW((void)Lease::take(out_, {}), Error) << length;
  }
}

}  // namespace
}  // namespace kinora::core
