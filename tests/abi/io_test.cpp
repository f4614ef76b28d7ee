// kinora.io/1 over a storage plugin, through the SDK's Reader and Writer.
#include "core/io/io.hpp"

#include <chrono>
#include <csignal>
#include <thread>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/cancel.hpp"
#include "core/plugin/host.hpp"
#include "kinora/io.hpp"
#include "tests/abi/plugins_folder.hpp"

namespace kinora::core::test {
namespace {

using testing::HasSubstr;

class MemoryIo : public testing::Test {
 protected:
  void SetUp() override {
    folder_.add({.name = "memory_storage", .id = "storage/memory"});
    registry_ = folder_.scan();
    serve_io(&io_);
  }
  void TearDown() override { serve_io(nullptr); }
  PluginsFolder folder_;
  Registry registry_ = folder_.scan();
  Io io_{registry_};
};

TEST_F(MemoryIo, WrittenIsReadAndListedAndRemoved) {
  {
    Writer w("memory://bucket/a.txt");
    w.write("hello ");
    w.write("world");
    w.commit();
  }
  const Reader r("MEMORY://bucket/a.txt");
  EXPECT_EQ(r.size(), 11);
  char some[64];
  EXPECT_EQ(r.read(6, some, sizeof some), 5u);
  EXPECT_EQ(std::string_view(some, 5), "world");
  EXPECT_EQ(or_throw(io_.read_all("memory://bucket/a.txt")), "hello world");
  ASSERT_TRUE(io_.write_all("memory://bucket/b.txt", "b"));
  const auto listed = or_throw(io_.list("memory://bucket"));
  ASSERT_EQ(listed.size(), 2u);
  EXPECT_EQ(listed[0].name, "a.txt");
  EXPECT_EQ(listed[1].size, 1u);
  EXPECT_FALSE(io_.read_all("memory://bucket/a.txt", 10));
  ASSERT_TRUE(io_.remove("memory://bucket/a.txt"));
  ASSERT_TRUE(io_.remove("memory://bucket/b.txt"));
  EXPECT_EQ(io_.remove("memory://bucket/b.txt").failure().message, "memory: no such object");
}

// What a plugin lists and removes, by the SDK.
TEST_F(MemoryIo, PluginsListAndRemove) {
  for (const char* name : {"a", "b", "c"})
    ASSERT_TRUE(io_.write_all(std::string("memory://bucket/") + name, name));
  std::vector<std::string> names;
  const auto each = [&](const kinora_entry& e) -> int32_t {
    names.emplace_back(view(e.name));
    return names.size() == 2 ? KINORA_SIGNAL_END : KINORA_OK;
  };
  EXPECT_EQ(list_folder("memory://bucket", each), KINORA_SIGNAL_END) << "ended by the caller";
  EXPECT_EQ(names.size(), 2u);
  EXPECT_THROW(list_folder("memory://bucket",
                           [](const kinora_entry&) -> int32_t { throw Error(KINORA_ERROR_DATA, "x"); }),
               Error);
  for (const char* name : {"a", "b", "c"}) remove_file(std::string("memory://bucket/") + name);
  EXPECT_THROW(remove_file("memory://bucket/a"), Error);
  EXPECT_THROW(list_folder("s4://bucket", each), Error);
}

// A storage that waits is interrupted when the run is asked to stop, again and again until it has ended.
TEST_F(MemoryIo, AStorageIsInterrupted) {
  ASSERT_TRUE(io_.write_all("memory://bucket/a", "a"));
  const auto interrupts = [&] { return or_throw(io_.read_all("memory://interrupts")); };
  EXPECT_EQ(interrupts(), "0");
  cancel();
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (std::stoi(interrupts()) < 3 && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_GE(std::stoi(interrupts()), 3);
  cancel(false);
}

// `kinora launch` blocks SIGCHLD and reads it from a file: no thread of the host may take it first.
TEST_F(MemoryIo, TheThreadThatInterruptsTakesNoSignal) {
  sigset_t mine, before;
  sigemptyset(&mine);
  sigaddset(&mine, SIGCHLD);
  ASSERT_TRUE(io_.write_all("memory://bucket/a", "a"));  // starts the thread
  pthread_sigmask(SIG_BLOCK, &mine, &before);
  for (int i = 0; i < 20; ++i) {
    kill(getpid(), SIGCHLD);
    std::this_thread::sleep_for(std::chrono::milliseconds(30));  // another thread would take it
    constexpr timespec kNow{};
    ASSERT_EQ(sigtimedwait(&mine, nullptr, &kNow), SIGCHLD);
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

TEST_F(MemoryIo, AbortedLeavesNothing) {
  {
    Writer w("memory://bucket/half");
    w.write("ha");
  }
  EXPECT_THROW(Reader("memory://bucket/half"), Error);
}

TEST_F(MemoryIo, UnknownSchemeNamesTheStoragesThereAre) {
  try {
    const Reader r("s4://bucket/key");
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), KINORA_ERROR_NOT_FOUND);
    EXPECT_THAT(e.what(), HasSubstr("unknown storage 's4'; there are: memory"));
  }
}

TEST_F(MemoryIo, OptionsOfAStorageAreChecked) {
  Io io(registry_);
  io.configure("memory", {{"endpoint", "x"}});
  EXPECT_THAT(io.list("memory://bucket").failure().message,
              HasSubstr("unknown option 'endpoint' of storage/memory; it has none"));
}

}  // namespace
}  // namespace kinora::core::test
