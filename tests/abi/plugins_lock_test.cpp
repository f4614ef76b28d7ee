// plugins.lock: a plugin whose files are not those of the lock, or that it does not have, is not opened.
#include "core/plugin/plugins_lock.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/digest.hpp"
#include "tests/abi/plugins_folder.hpp"

namespace kinora::core::test {
namespace {

using testing::HasSubstr;

class PluginsLockTest : public testing::Test {
 protected:
  void SetUp() override {
    plugin_ = folder_.add({.name = "minimal"});
    file_ = folder_.path() / kPluginsLock;
    std::ofstream(file_) << PluginsLock::of(folder_.scan().plugins()).text();
  }
  // Opens the stage under the lock; "" if that works, else the message.
  std::string opened() const {
    Registry registry = folder_.scan();
    or_throw(registry.use_lock(or_throw(PluginsLock::read(file_))));
    const auto stage = registry.open("stage/minimal");
    return stage ? "" : stage.failure().message;
  }
  PluginsFolder folder_;
  fs::path plugin_, file_;
};

TEST_F(PluginsLockTest, WhatWasLockedIsOpened) { EXPECT_EQ(opened(), ""); }

TEST_F(PluginsLockTest, AnotherLibraryIsRefusedWithBothDigestsAndTheCommand) {
  const fs::path library = plugin_ / "libminimal.so";
  const std::string before = sha256_of_file(library);
  std::ofstream(library, std::ios::app) << "x";
  const std::string message = opened();
  EXPECT_THAT(message, HasSubstr(library.string() + " has SHA-256 " + sha256_of_file(library)));
  EXPECT_THAT(message, HasSubstr("expected " + before + " as in " + file_.string()));
  EXPECT_THAT(message, HasSubstr(" plugins lock " + file_.string()));
}

TEST_F(PluginsLockTest, AnotherLibraryIsListedAsDisabledBeforeItIsOpened) {
  const auto listed = [&] {
    Registry registry = folder_.scan();
    or_throw(registry.use_lock(or_throw(PluginsLock::read(file_))));
    EXPECT_EQ(PluginsLock::of(registry.plugins()).size(), 1U) << "a lock can be renewed";
    return registry.plugins().at(0);
  };
  EXPECT_EQ(listed().state, PluginState::ready);
  std::ofstream(plugin_ / "libminimal.so", std::ios::app) << "x";
  EXPECT_EQ(listed().state, PluginState::disabled);
  EXPECT_THAT(listed().reason, HasSubstr("libminimal.so has SHA-256 "));
}

TEST_F(PluginsLockTest, AnotherManifestIsRefused) {
  std::ofstream(plugin_ / "plugin.toml", std::ios::app) << "# a change\n";
  EXPECT_THAT(opened(), HasSubstr((plugin_ / "plugin.toml").string() + " has SHA-256 "));
}

TEST_F(PluginsLockTest, APluginThatItDoesNotHaveIsRefused) {
  const fs::path other = folder_.path() / "pure_c_stage";  // its manifest is inside the library
  fs::create_directory(other);
  fs::copy_file(PluginsFolder::built("pure_c_stage"), other / "libpure_c_stage.so");
  Registry registry = folder_.scan();
  ASSERT_TRUE(registry.use_lock(or_throw(PluginsLock::read(file_))));
  const auto stage = registry.open("stage/count.bytes");
  ASSERT_FALSE(stage);
  EXPECT_THAT(stage.failure().message, HasSubstr("libpure_c_stage.so is not in " + file_.string()));
  EXPECT_TRUE(registry.open("stage/minimal"));
}

TEST_F(PluginsLockTest, APluginThatIsOpenMustFitToo) {
  Registry registry = folder_.scan();
  ASSERT_TRUE(registry.open("stage/minimal"));
  std::ofstream(plugin_ / "plugin.toml", std::ios::app) << "# a change\n";
  const auto status = registry.use_lock(or_throw(PluginsLock::read(file_)));
  ASSERT_FALSE(status);
  EXPECT_THAT(status.failure().message, HasSubstr("plugin.toml has SHA-256"));
}

TEST_F(PluginsLockTest, ADamagedLockIsNoLock) {
  for (const char* text : {"", "[plugin.minimal]\nlibrary = \"12\"\n", "[plugin.minimal]\n", "[[plugin"}) {
    std::ofstream(file_) << text;
    const auto lock = PluginsLock::read(file_);
    ASSERT_FALSE(lock) << text;
    EXPECT_THAT(lock.failure().message, HasSubstr(file_.string())) << text;
  }
}

}  // namespace
}  // namespace kinora::core::test
