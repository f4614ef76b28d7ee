// kinora.io/1 over a storage plugin, through the SDK's Reader and Writer.
#include "core/io/io.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
