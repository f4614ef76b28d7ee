#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "core/base/paths.hpp"
#include "core/plugin/elf.hpp"
#include "kinora/abi/model.h"
#include "kinora/abi/stage.h"
#include "tests/abi/plugins_folder.hpp"

namespace kinora::core::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Registry, FirstFolderWinsAndTheOtherIsListedAsShadowed) {
  PluginsFolder mine, shipped;
  mine.add({.name = "minimal", .version = "0.2.0"});
  shipped.add({.name = "minimal"});
  const auto registry = Registry::scan({{mine.path(), "--plugins"}, {shipped.path(), "built-in"}});
  const auto plugins = registry.plugins();
  ASSERT_EQ(plugins.size(), 2u);
  EXPECT_EQ(plugins[0].state, PluginState::ready);
  EXPECT_EQ(plugins[0].spec.version, "0.2.0");
  EXPECT_EQ(plugins[1].state, PluginState::shadowed);
  EXPECT_THAT(plugins[1].reason, HasSubstr(mine.path().string()));
}

TEST(Registry, APluginThatCannotBeUsedHidesNothing) {
  PluginsFolder mine, shipped;
  chmod(mine.add({.name = "minimal"}).c_str(), 0777);
  mine.add({.name = "too-new", .abi = "9.0"}, "minimal");
  shipped.add({.name = "minimal"});
  auto registry = Registry::scan({{mine.path(), "--plugins"}, {shipped.path(), "built-in"}});
  for (const auto& plugin : registry.plugins())
    EXPECT_EQ(plugin.state,
              plugin.folder.parent_path() == mine.path() ? PluginState::disabled : PluginState::ready)
        << plugin.folder;
  EXPECT_EQ((*registry.open("stage/minimal")).plugin->name, "minimal");
}

TEST(Registry, ComponentOfTwoPluginsBelongsToTheFirst) {
  PluginsFolder folder;
  folder.add({.name = "a"}, "minimal");
  folder.add({.name = "b"}, "minimal");
  const auto plugins = folder.scan().plugins();
  EXPECT_TRUE(plugins[0].shadowed.empty());
  EXPECT_EQ(plugins[1].shadowed.at("stage/minimal"), "a");
}

TEST(Registry, SaysWhichPluginIsUsedInPlaceOfAnother) {
  PluginsFolder mine, shipped;
  mine.add({.name = "mine"}, "minimal");
  mine.add({.name = "twin", .id = "sampler/a"}, "minimal");
  shipped.add({.name = "minimal"});
  shipped.add({.name = "twin", .id = "sampler/a"}, "minimal");
  const auto registry = Registry::scan({{mine.path(), "--plugins"}, {shipped.path(), "built-in"}});
  const auto line = [&](const char* ids, const char* used, const char* hidden) {
    return fmt::format(
        "{}: the plugin in {} is used, and hides the one in {}; remove it if that is not intended", ids,
        (mine.path() / used).string(), (shipped.path() / hidden).string());
  };
  EXPECT_THAT(registry.taken_over({"stage/minimal", "loss/none"}),
              ElementsAre(line("stage/minimal", "mine", "minimal")));
  EXPECT_THAT(registry.taken_over({"sampler/a"}), ElementsAre(line("sampler/a", "twin", "twin")));
  EXPECT_THAT(registry.taken_over({"loss/none"}), testing::IsEmpty());
}

TEST(Registry, AnUnknownKeyDisablesNothing) {
  PluginsFolder folder;
  folder.add({.name = "minimal", .more = "licence = \"MIT\"\n"});
  auto registry = folder.scan();
  EXPECT_TRUE(registry.open("stage/minimal"));
  EXPECT_THAT(registry.plugins()[0].spec.warnings,
              ElementsAre(HasSubstr("plugin.toml:7:1: unknown key 'licence' in [plugin]")));
}

TEST(Registry, AnUnknownKindIsUnusableAlone) {
  PluginsFolder folder;
  folder.add({.name = "two_kinds",
              .id = "reward/taste",
              .options = "state = 2\n[[component]]\nid = \"stage/minimal\"\nhelp = \"of a test\"\n"});
  auto registry = folder.scan();
  EXPECT_THAT(registry.ids(), ElementsAre("stage/minimal"));
  EXPECT_TRUE(registry.open("stage/minimal"));
  const auto found = registry.open("reward/taste");
  ASSERT_FALSE(found);
  EXPECT_EQ(found.failure().code, KINORA_ERROR_UNSUPPORTED);
  EXPECT_THAT(found.failure().message, HasSubstr("unknown kind 'reward'"));
  EXPECT_EQ(registry.plugins()[0].state, PluginState::loaded);
}

// The plugin of a later minor: its kinora_component has one more member.
TEST(Registry, StepsThroughComponentsByTheSizeThatTheyState) {
  PluginsFolder folder;
  folder.add(
      {.name = "wide_components", .options = "[[component]]\nid = \"stage/second\"\nhelp = \"of a test\"\n"});
  auto registry = folder.scan();
  for (const char* id : {"stage/minimal", "stage/second"}) {
    const auto found = registry.open(id);
    ASSERT_TRUE(found) << found.failure().message;
    EXPECT_EQ(found->table<kinora_stage>().struct_size, sizeof(kinora_stage)) << id;
  }
}

TEST(Registry, AnotherDraftIsRefusedBeforeItsLibraryIsOpenedAndHidesNothing) {
  PluginsFolder mine, shipped;
  mine.add({.name = "x", .id = "model/x", .options = "interface = \"kinora.model/1-draft.0\"\n"}, "minimal");
  auto registry = mine.scan();
  EXPECT_THAT(
      registry.open("model/x").failure().message,
      HasSubstr("model/x is built for kinora.model/1-draft.0, this Kinora has " KINORA_INTERFACE_MODEL));
  EXPECT_EQ(registry.plugins()[0].state, PluginState::ready);
  shipped.add({.name = "x", .id = "model/x", .options = "interface = \"" KINORA_INTERFACE_MODEL "\"\n"},
              "minimal");
  registry = Registry::scan({{mine.path(), "--plugins"}, {shipped.path(), "built-in"}});
  EXPECT_TRUE(registry.find("model/x"));
  EXPECT_THAT(registry.taken_over({"model/x"}), testing::IsEmpty());
}

TEST(Registry, SameFolderTwiceIsSearchedOnce) {
  PluginsFolder folder;
  folder.add({.name = "minimal"});
  const auto registry =
      Registry::scan({{folder.path(), "--plugins"}, {folder.path() / ".", "KINORA_PLUGIN_PATH"}});
  EXPECT_EQ(registry.plugins().size(), 1u);
}

TEST(Registry, APluginsOwnFolderMayBeNamed) {
  PluginsFolder folder;
  const auto own = folder.add({.name = "minimal"});
  EXPECT_EQ(Registry::scan({{own, "--plugins"}}).ids(), std::vector<std::string>{"stage/minimal"});
}

// A library describes itself, so `plugins list` reports a forgotten plugin.toml.
TEST(Registry, NamesALibraryWithoutItsManifest) {
  PluginsFolder folder;
  fs::copy_file(PluginsFolder::built("pure_c_stage"), folder.path() / "libpure_c_stage.so");
  EXPECT_EQ(folder.scan().ids(), std::vector<std::string>{"stage/count.bytes"});
  fs::copy_file(PluginsFolder::built("minimal"), folder.path() / "libminimal.so");
  const auto several = [&](const Registry& registry) {
    const auto plugins = registry.plugins();
    ASSERT_EQ(plugins.size(), 1U);
    EXPECT_EQ(plugins[0].state, PluginState::disabled);
    EXPECT_THAT(plugins[0].reason,
                HasSubstr("2 libraries and no plugin.toml; put each plugin in its own folder"));
  };
  several(folder.scan());
  fs::create_directory(folder.path() / "both");
  for (const char* name : {"libpure_c_stage.so", "libminimal.so"})
    fs::rename(folder.path() / name, folder.path() / "both" / name);
  several(folder.scan());
  fs::remove(folder.path() / "both/libpure_c_stage.so");
  EXPECT_THAT(folder.scan().plugins().at(0).reason, HasSubstr("no plugin.toml next to it and none inside"));
}

TEST(Registry, FindsByIdAndByKindAndSuggests) {
  PluginsFolder folder;
  folder.add({.name = "minimal"});
  folder.add({.name = "other", .id = "sampler/edm-heun"}, "minimal");
  const auto registry = folder.scan();
  EXPECT_EQ((*registry.find("sampler/edm-heun"))->name, "edm-heun");
  EXPECT_EQ((*registry.find("sampler", "edm-heun"))->id, "sampler/edm-heun");
  EXPECT_EQ((*registry.find("sampler", "sampler/edm-heun"))->id, "sampler/edm-heun");
  const auto says = [&](std::string_view kind, std::string_view name) {
    return registry.find(kind, name).failure().message;
  };
  EXPECT_THAT(says("sampler", "edm_huen"), HasSubstr("unknown sampler 'edm_huen', did you mean 'edm-heun'?"));
  EXPECT_THAT(says("", "sampler/edm-huen"), HasSubstr("did you mean 'sampler/edm-heun'?"));
  EXPECT_THAT(says("", "edm-heun"), HasSubstr("did you mean 'sampler/edm-heun'?"));
  EXPECT_THAT(says("sampler", "zzzzzz"), HasSubstr("there are: edm-heun"));
  EXPECT_THAT(says("loss", "edm"), HasSubstr("there is none"));
  EXPECT_THAT(says("loss", "stage/minimal"), HasSubstr("is of kind stage; kind loss is required here"));
}

TEST(Registry, SaysWhichNamedFolderIsMissing) {
  PluginsFolder folder;
  const auto registry = Registry::scan(
      {{folder.path() / "nowhere", "--plugins", true}, {folder.path() / "home", "user", false}});
  ASSERT_EQ(registry.notices().size(), 1u);
  EXPECT_THAT(registry.notices()[0], HasSubstr("nowhere (--plugins): No such file or directory"));
}

TEST(Registry, RefusesWhatEveryUserMayWrite) {
  PluginsFolder folder;
  const auto plugin = folder.add({.name = "minimal"});
  chmod(plugin.c_str(), 0777);
  auto plugins = folder.scan().plugins();
  EXPECT_EQ(plugins[0].state, PluginState::disabled);
  EXPECT_THAT(plugins[0].reason, HasSubstr("writable by every user; run: chmod o-w"));

  chmod(plugin.c_str(), 0755);
  chmod((plugin / "libminimal.so").c_str(), 0777);
  plugins = folder.scan().plugins();
  EXPECT_EQ(plugins[0].state, PluginState::disabled);
  EXPECT_THAT(plugins[0].reason, HasSubstr("libminimal.so is writable by every user"));

  chmod((plugin / "libminimal.so").c_str(), 0755);
  EXPECT_EQ(folder.scan().plugins()[0].state, PluginState::ready);
  chmod((plugin / "plugin.toml").c_str(), 0666);
  EXPECT_THAT(folder.scan().plugins()[0].reason, HasSubstr("plugin.toml is writable by every user"));

  chmod(folder.path().c_str(), 0777);
  const auto registry = folder.scan();
  EXPECT_TRUE(registry.plugins().empty());
  ASSERT_EQ(registry.notices().size(), 1u);
  EXPECT_THAT(registry.notices()[0], HasSubstr("was not searched"));
}

// A user who can change the path to a library can change the library.
TEST(Registry, RefusesWhatOthersMayChangeOnTheWay) {
  PluginsFolder folder;
  const fs::path above = folder.path() / "above", plugins = above / "plugins";
  fs::create_directories(plugins);
  fs::copy(folder.add({.name = "minimal"}), plugins / "minimal", fs::copy_options::recursive);
  const auto said = [](const fs::path& searched) {
    const auto registry = Registry::scan({{searched, "--plugins", true}}, PluginsFolder::like_release());
    if (!registry.notices().empty()) return registry.notices()[0];
    return registry.plugins().at(0).reason;
  };
  const auto as_is = [](const fs::path& path, int mode) { chmod(path.c_str(), static_cast<mode_t>(mode)); };
  EXPECT_EQ(said(plugins), "");
  as_is(above, 0777);
  EXPECT_THAT(said(plugins), HasSubstr("above is writable by every user"));
  EXPECT_THAT(said(plugins / "minimal"), HasSubstr("above is writable by every user"));
  fs::create_directory_symlink(plugins, folder.path() / "link");
  EXPECT_THAT(said(folder.path() / "link"), HasSubstr("above is writable by every user"))
      << "the target of a link";
  as_is(above, 0755);
  EXPECT_EQ(said(folder.path() / "link"), "");
  fs::rename(plugins / "minimal/libminimal.so", above / "elsewhere.so");
  fs::create_symlink(above / "elsewhere.so", plugins / "minimal/libminimal.so");
  as_is(above / "elsewhere.so", 0666);
  EXPECT_THAT(said(plugins), HasSubstr("elsewhere.so is writable by every user"));
  as_is(above / "elsewhere.so", 0644);
  EXPECT_EQ(said(plugins), "");
  if (geteuid() != 0) GTEST_SKIP() << "only root may change owners of files";
  const auto give = [](const fs::path& path, uid_t user, gid_t group) {
    ASSERT_EQ(lchown(path.c_str(), user, group), 0);
  };
  as_is(above, 0775);
  EXPECT_EQ(said(plugins), "") << "root's group belongs to root";
  give(above, 0, 12345);
  EXPECT_THAT(said(plugins), HasSubstr("above is writable by its group; run: chmod g-w"));
  as_is(above, 0755);
  EXPECT_EQ(said(plugins), "");
  give(above, 12345, 0);
  EXPECT_THAT(said(plugins), HasSubstr("above belongs to another user"));
  give(above, 0, 0);
  give(folder.path() / "link", 12345, 0);
  EXPECT_THAT(said(folder.path() / "link"), HasSubstr("link belongs to another user"));
}

// With the umask 002 of Debian and of containers, whose users have no name, a group may write that has no one
// else in it.
TEST(Registry, AGroupOfOneIsAccepted) {
  if (geteuid() != 0) GTEST_SKIP() << "only root may change owners of files";
  PluginsFolder folder;
  const auto plugin = folder.add({.name = "minimal"});
  constexpr uid_t kNoName = 54321;
  const auto why = [&](gid_t group) -> std::string {
    for (const auto& path : {folder.path(), plugin}) {
      EXPECT_EQ(chown(path.c_str(), kNoName, group), 0);
      EXPECT_EQ(chmod(path.c_str(), 0775), 0);
    }
    EXPECT_EQ(seteuid(kNoName), 0);
    std::string said = why_untrusted(plugin);
    EXPECT_EQ(seteuid(0), 0);
    return said;
  };
  EXPECT_EQ(why(kNoName), "");
  EXPECT_EQ(why(0), "") << "root's group";
  EXPECT_THAT(why(kNoName + 1), HasSubstr("is writable by its group; run: chmod g-w"));
  EXPECT_THAT(why(100), HasSubstr("is writable by its group")) << "a group of many";
}

TEST(Registry, AStickyFolderIsAccepted) {
  PluginsFolder folder;
  folder.add({.name = "minimal"});
  chmod(folder.path().c_str(), 01777);
  EXPECT_EQ(folder.scan().plugins()[0].state, PluginState::ready);
}

TEST(Registry, LibraryWithoutPluginTomlIdentifiesItself) {
  PluginsFolder folder;
  fs::create_directory(folder.path() / "stray");
  fs::copy_file(PluginsFolder::built("pure_c_stage"), folder.path() / "stray/libanything.so");
  auto registry = folder.scan();
  EXPECT_THAT(registry.ids("stage"), ElementsAre("stage/count.bytes"));
  EXPECT_TRUE(registry.open("stage/count.bytes"));
}

TEST(Registry, ZerosBehindTheEmbeddedManifestAreNoPartOfIt) {
  const auto embedded =
      or_throw(read_embedded_manifest(PluginsFolder::built("padded_manifest"))).value_or("");
  EXPECT_TRUE(embedded.ends_with("help = \"of a test\"\n")) << embedded.size();
  PluginsFolder folder;
  std::ofstream(folder.add({.name = "padded_manifest"}) / "plugin.toml") << embedded;
  EXPECT_EQ(folder.scan().plugins()[0].state, PluginState::ready) << folder.scan().plugins()[0].reason;
}

TEST(Registry, ManifestThatIsNotTheLibrarysIsRefused) {
  PluginsFolder folder;
  const fs::path plugin = folder.add({.name = "pure_c_stage", .id = "stage/count.bytes"});
  const auto registry = folder.scan();
  const auto plugins = registry.plugins();
  EXPECT_EQ(plugins[0].state, PluginState::disabled);
  EXPECT_THAT(plugins[0].reason,
              HasSubstr("plugin.toml:10:1: it differs from the manifest inside libpure_c_stage.so"));
  EXPECT_THAT(plugins[0].reason, HasSubstr("kinora plugins manifest " + plugins[0].library.string() +
                                           " --tier stable --out " + (plugin / "plugin.toml").string()));
  EXPECT_THAT(registry.ids(), testing::IsEmpty());
  const auto misspelt = registry.find("stage/count.byte");
  ASSERT_FALSE(misspelt);
  EXPECT_THAT(misspelt.failure().message, testing::Not(HasSubstr("did you mean")));
}

TEST(Registry, MissingOrForeignLibraryIsSaidInWords) {
  PluginsFolder folder;
  const auto plugin = folder.add({.name = "minimal"});
  fs::remove(plugin / "libminimal.so");
  EXPECT_THAT(folder.scan().plugins()[0].reason, HasSubstr("libminimal.so: No such file"));
  std::ofstream(plugin / "libminimal.so") << "#!/bin/sh\n";
  EXPECT_THAT(folder.scan().plugins()[0].reason, HasSubstr("not an ELF file"));
}

TEST(Registry, ManyThreadsOpenOnePluginOnce) {
  PluginsFolder folder;
  folder.add({.name = "minimal"});
  auto registry = folder.scan();
  std::vector<std::thread> threads;
  std::array<const void*, 8> apis{};
  for (auto& api : apis) {
    threads.emplace_back([&] {
      if (const auto c = registry.open("stage/minimal")) api = c->api;
      registry.plugins();
    });
  }
  for (auto& t : threads) t.join();
  EXPECT_NE(apis[0], nullptr);
  for (const auto* api : apis) EXPECT_EQ(api, apis[0]);
  EXPECT_EQ(registry.plugins()[0].state, PluginState::loaded);
}

}  // namespace
}  // namespace kinora::core::test
