// A plugin whose library needs another: libkinora_absent.so.3 is stored where neither the linker nor the
// loader searches.
#include <cstdlib>
#include <dlfcn.h>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "core/plugin/elf.hpp"
#include "core/plugin/library.hpp"
#include "core/plugin/libtorch.hpp"
#include "tests/abi/plugins_folder.hpp"

namespace kinora::core::test {
namespace {

using testing::HasSubstr;

constexpr const char* library = "libkinora_absent.so.3";
const fs::path built_library = fs::path(KINORA_ABI_PLUGINS) / "absent" / library;

std::string why(const fs::path& plugin, Tier tier = Tier::stable, const HostFacts& host = {}) {
  const auto status = check_needed(plugin, tier, host);
  return status ? "" : status.failure().message;
}

TEST(Needed, LibraryThatIsRemovedDisablesThePluginBeforeItIsOpened) {
  PluginsFolder folder;
  const auto plugin = folder.add({.name = "missing_library"}, "library_beside");
  fs::copy_file(built_library, plugin / library);
  EXPECT_EQ(folder.scan().plugins()[0].state, PluginState::ready);
  fs::remove(plugin / library);
  const auto registry = folder.scan();
  const auto info = registry.plugins()[0];
  EXPECT_EQ(info.state, PluginState::disabled);
  EXPECT_THAT(info.reason,
              testing::StartsWith("requires libkinora_absent.so.3, which is not installed; install"));
  const auto found = registry.find("stage/minimal");
  ASSERT_FALSE(found);
  EXPECT_THAT(found.failure().message,
              HasSubstr("its plugin 'missing_library' is disabled: requires libkinora_absent.so.3"));
}

// Runs in a separate process: an opened library stays loaded, and later tests would find it.
void expect_in_a_fork(const std::function<bool()>& holds) {
  EXPECT_EXIT(std::_Exit(holds() ? 0 : 1), testing::ExitedWithCode(0), "");
}

TEST(Needed, PluginThatIsReadyOpensWithTheLibraryBesideIt) {
  PluginsFolder folder;
  const auto plugin = folder.add({.name = "missing_library"}, "library_beside");
  fs::copy_file(built_library, plugin / library);
  expect_in_a_fork([&] { return static_cast<bool>(folder.scan().open("stage/minimal")); });
}

TEST(Needed, BrokenLinkIsNoLibrary) {
  PluginsFolder folder;
  const auto plugin = folder.add({.name = "missing_library"}, "library_beside");
  fs::create_symlink("nowhere", plugin / library);
  EXPECT_EQ(folder.scan().plugins()[0].state, PluginState::disabled);
}

TEST(Needed, LdLibraryPathIsSearched) {
  const auto plugin = PluginsFolder::built("missing_library");
  EXPECT_NE(why(plugin), "");
  const char* before = std::getenv("LD_LIBRARY_PATH");
  const std::string kept = before ? before : "";
  setenv("LD_LIBRARY_PATH", ("/nowhere:" + built_library.parent_path().string()).c_str(), 1);
  EXPECT_EQ(why(plugin), "");
  if (before)
    setenv("LD_LIBRARY_PATH", kept.c_str(), 1);
  else
    unsetenv("LD_LIBRARY_PATH");
}

// Opening libtorch's folder for the host opens it for plugins that are pinned to it, and for no
// others.
TEST(Needed, HostsLibtorchFolderCountsForThePinnedTier) {
  PluginsFolder folder;
  const auto torch =
      folder.add({.name = "torch"}, "library_beside") / "libtorch.so";  // its run path is its folder
  fs::copy_file(built_library, torch.parent_path() / library);
  HostFacts host;
  host.torch_folder = torch.parent_path();
  const auto plugin = PluginsFolder::built("missing_library");
  EXPECT_EQ(why(plugin, Tier::pinned, host), "");
  EXPECT_NE(why(plugin, Tier::stable, host), "");
  EXPECT_NE(why(plugin, Tier::pinned), "");
}

// libkinora_torch's run path leads to the folder of an installation, and in a build tree to libtorch's.
TEST(Needed, LibtorchIsFoundByTheRunPathOfALibraryBeside) {
  unsetenv("KINORA_TORCH");
  PluginsFolder folder;
  const auto plugin = folder.add({.name = "torch"}, "library_beside");
  const fs::path library_of_torch = plugin / "libtorch.so";
  const auto before = find_libtorch(library_of_torch, "0.0.0", {});
  EXPECT_TRUE(!before || *before != fs::canonical(plugin));
  std::ofstream(plugin / "libtorch_cpu.so");
  EXPECT_EQ(or_throw(find_libtorch(library_of_torch, "0.0.0", {})), fs::canonical(plugin));
}

#ifdef __x86_64__
// Libraries for newer processors are in a subfolder that only the dynamic linker knows.
TEST(Needed, TheDynamicLinkerIsAskedWhatItAloneKnows) {
  PluginsFolder folder;
  const auto plugin = folder.add({.name = "missing_library"}, "library_beside");
  fs::create_directories(plugin / "glibc-hwcaps/x86-64-v2");
  EXPECT_EQ(folder.scan().plugins()[0].state, PluginState::disabled);
  fs::copy_file(built_library, plugin / "glibc-hwcaps/x86-64-v2" / library);
  EXPECT_EQ(folder.scan().plugins()[0].state, PluginState::ready) << folder.scan().plugins()[0].reason;
}

// The linker of a process started with this LD_LIBRARY_PATH finds the library, and so would dlopen().
TEST(Needed, AskingOpensNothing) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  PluginsFolder folder;
  const fs::path newer = folder.path() / "glibc-hwcaps/x86-64-v2";
  fs::create_directories(newer);
  fs::copy_file(built_library, newer / library);
  const char* before = std::getenv("LD_LIBRARY_PATH");
  const std::string kept = before ? before : "";
  setenv("LD_LIBRARY_PATH", folder.path().c_str(), 1);
  expect_in_a_fork([&] {
    return why(PluginsFolder::built("missing_library")).empty() && !std::getenv("KINORA_ABSENT_OPENED") &&
           dlopen(library, RTLD_NOW) && std::getenv("KINORA_ABSENT_OPENED");
  });
  if (before)
    setenv("LD_LIBRARY_PATH", kept.c_str(), 1);
  else
    unsetenv("LD_LIBRARY_PATH");
}
#endif

TEST(Needed, RunPathLeadsToNothingThatOthersMayChange) {
  PluginsFolder folder;
  const auto plugin = folder.add({.name = "missing_library"}, "library_beside");
  fs::copy_file(built_library, plugin / library);
  const fs::path shared = folder.path() / "shared", libs = shared / "libs";
  const auto said = [&] { return folder.scan().plugins().at(0).reason; };
  const auto as_is = [](const fs::path& path, mode_t mode) {
    ASSERT_EQ(chmod(path.c_str(), mode), 0) << path;
  };
  EXPECT_EQ(said(), "") << "no other user can create it";
  fs::create_directory(shared);
  as_is(shared, 01777);
  EXPECT_THAT(said(), HasSubstr("shared/libs does not exist, and every user may create it"));
  fs::create_directory(libs);
  EXPECT_EQ(said(), "") << "no other user can change it";
  as_is(libs, 0777);
  EXPECT_THAT(said(), HasSubstr("libs is writable by every user"));
  as_is(libs, 01777);
  EXPECT_THAT(said(), HasSubstr("does not exist, and every user may create it"));
  as_is(libs, 0755);
  fs::rename(plugin / library, libs / library);
  EXPECT_EQ(said(), "");
  as_is(libs / library, 0666);
  EXPECT_THAT(said(), HasSubstr("libkinora_absent.so.3 is writable by every user"));
}

TEST(Needed, RunPathIsNeverRelative) {
  const std::string good = "$ORIGIN/../shared/libs";
  for (const auto& [entry, words] :
       {std::pair{":", "the current folder"}, {"libs/", "the relative folder libs/"}}) {
    PluginsFolder folder;
    const auto plugin = folder.add({.name = "missing_library"}, "library_beside");
    fs::copy_file(built_library, plugin / library);
    const fs::path file = plugin / "libmissing_library.so";
    std::ifstream in(file, std::ios::binary);
    std::string bytes(std::istreambuf_iterator<char>(in), {}), run_path;
    while (run_path.size() < good.size()) run_path += entry;
    const size_t at = bytes.find(good);
    ASSERT_NE(at, bytes.npos);
    bytes.replace(at, good.size(), run_path, 0, good.size());
    std::ofstream(file, std::ios::binary) << bytes;
    EXPECT_THAT(folder.scan().plugins().at(0).reason, HasSubstr(words));
  }
}

// An empty entry means the current folder, whichever that is.
TEST(Needed, NoRunPathOfOurOwnLeadsToTheCurrentFolder) {
  const auto built = fs::path(std::getenv("KINORA_PLUGIN_PATH")) / "storage-file/libstorage-file.so";
  const std::string listed = ":" + or_throw(read_needs(built)).run_path + ":";
  EXPECT_EQ(listed.find("::"), listed.npos) << listed;
}

TEST(Needed, EveryPluginThatWasBuiltHereHasItsLibraries) {
  for (const char* name : {"minimal", "pure_c_stage", "memory_storage"})
    EXPECT_EQ(why(PluginsFolder::built(name)), "") << name;
}

// A copy of a built plugin whose library needs `name` in place of libkinora_absent.so.3.
fs::path needs_instead(const PluginsFolder& folder, std::string name) {
  std::ifstream in(PluginsFolder::built("missing_library"), std::ios::binary);
  std::string bytes(std::istreambuf_iterator<char>(in), {});
  const size_t at = bytes.find(library), size = std::string_view(library).size();
  EXPECT_NE(at, bytes.npos);
  name.resize(size, '\0');
  bytes.replace(at, size, name);
  const fs::path out = folder.path() / "libchanged.so";
  std::ofstream(out, std::ios::binary) << bytes;
  return out;
}

TEST(Needed, AStablePluginMayNotNeedLibtorch) {
  PluginsFolder folder;
  for (const char* name : {"libtorch_cpu.so", "libtorch.so", "libc10.so"}) {
    const auto plugin = needs_instead(folder, name);
    EXPECT_EQ(why(plugin),
              std::string("requires ") + name +
                  ", which a plugin of tier stable may not; take tier pinned, or link nothing of libtorch: "
                  "kinora.tensors/1 offers it");
    EXPECT_THAT(why(plugin, Tier::pinned), testing::Not(HasSubstr("tier stable")));
  }
}

TEST(Needed, ASanitizersRuntimeMustBeThereFirst) {
  PluginsFolder folder;
  const auto plugin = needs_instead(folder, "libasan.so.99");
  EXPECT_EQ(why(plugin),
            "requires libasan.so.99, which must be in the process first; set "
            "LD_PRELOAD=libasan.so.99 for the program, or build the plugin without the sanitizer");
}

TEST(Needed, RemedyNamesThePackage) {
  EXPECT_THAT(remedy_for("libavcodec.so.59"), HasSubstr("apt install ffmpeg"));
  EXPECT_THAT(remedy_for("libfoo.so.3"), HasSubstr("apt-file search libfoo.so.3"));
}

// Checked last: a library that is already loaded into the process counts as present, wherever it came from.
TEST(Needed, LibraryInTheProcessIsThere) {
  PluginsFolder folder;
  fs::copy_file(built_library, folder.path() / library);
  const auto plugin = PluginsFolder::built("missing_library");
  expect_in_a_fork([&] {
    const bool missing = !why(plugin).empty();
    return missing && dlopen((folder.path() / library).c_str(), RTLD_NOW | RTLD_LOCAL) && why(plugin).empty();
  });
}

}  // namespace
}  // namespace kinora::core::test
