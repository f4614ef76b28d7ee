// An unsuitable plugin is refused with the field, the expected and the found value; the other plugins are
// loaded.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kinora/abi/stage.h"
#include "tests/abi/plugins_folder.hpp"

namespace kinora::core::test {
namespace {

using testing::HasSubstr;

struct Case {
  const char* what;
  Manifest manifest;
  std::vector<const char*> says;
  const char* library = "";  // the built one; "": for `before` a valid one, for `after` the plugin's name
};

// Refused before the library is opened: the manifest alone decides, so the library may be valid.
const Case before[] = {
    {"abi major",
     {.name = "minimal", .abi = "2.0"},
     {"'minimal': abi: expected 1.0 to 1.0, found 2.0", "newer Kinora"}},
    {"old abi major",
     {.name = "minimal", .abi = "0.9"},
     {"abi: expected 1.0 to 1.0, found 0.9", "build the plugin with"}},
    {"abi minor", {.name = "minimal", .abi = "1.7"}, {"abi: expected 1.0 to 1.0, found 1.7"}},
    {"newer keys of a newer abi",
     {.name = "minimal", .abi = "1.7", .more = "colour = 3\n"},
     {"abi: expected 1.0 to 1.0, found 1.7"}},
    {"torch",
     {.name = "minimal", .tier = "pinned", .more = "torch = \"==1.13.1\"\ncxx_abi = \"1\"\n"},
     {"torch: expected 2.11.0, found 1.13.1", "build the plugin"}},
    {"cxx_abi",
     {.name = "minimal", .tier = "pinned", .more = "torch = \"==2.11.0\"\ncxx_abi = \"0\"\n"},
     {"cxx_abi: expected 1, found 0"}},
    {"cuda",
     {.name = "minimal",
      .tier = "pinned",
      .more = "torch = \"==2.11.0\"\ncxx_abi = \"1\"\ncuda = \"13.0\"\n"},
     {"cuda: expected none", "found 13.0"}},
    {"a missing library",
     {.name = "missing_library"},
     {"requires libkinora_absent.so.3, which is not installed; install", "LD_LIBRARY_PATH"},
     "missing_library"},
};

const Case after[] = {
    {"another major inside", {.name = "wrong_major"}, {"'wrong_major': abi_major: expected 1, found 2"}},
    {"another minor inside", {.name = "newer_minor"}, {"abi: expected 1.0, found 1.7"}},
    {"no struct_size",
     {.name = "unset_size"},
     {"struct_size of kinora_plugin: expected at least 40, found 0"}},
    {"another id", {.name = "other_id"}, {"component: expected one of the manifest's, found stage/other"}},
    {"another interface",
     {.name = "other_interface"},
     {"interface of stage/minimal: expected kinora.stage/1, found kinora.stage/9"}},
    {"a short table",
     {.name = "short_table"},
     {"struct_size of stage/minimal's kinora.stage/1 table: expected at least 64, found 24"}},
    {"a function that is null",
     {.name = "null_slot"},
     {"process of stage/minimal: expected a function, found null"}},
    {"no entry", {.name = "no_entry"}, {"libno_entry.so: exports no function kinora_plugin_entry"}},
    {"an undefined symbol", {.name = "undefined_symbol"}, {"kinora_tests_defined_nowhere", "build it again"}},
    {"an entry that declines",
     {.name = "cannot_work"},
     {"cannot be used here: no machine with a flux capacitor; install one"}},
    {"an entry that throws", {.name = "throws_in_entry"}, {"its entry threw an exception of unknown type"}},
    {"another name", {.name = "renamed"}, {"name: expected renamed, found minimal"}, "minimal"},
    {"another version", {.name = "minimal", .version = "0.2.0"}, {"version: expected 0.2.0, found 0.1.0"}},
};

void expect_says(const std::string& text, const Case& c) {
  for (const char* part : c.says) EXPECT_THAT(text, HasSubstr(part));
}

TEST(Refusal, BeforeOpeningNamesFieldExpectedFound) {
  for (const auto& c : before) {
    SCOPED_TRACE(c.what);
    PluginsFolder folder;
    folder.add(c.manifest, *c.library ? c.library : "minimal");
    const auto registry = folder.scan();
    const auto plugins = registry.plugins();
    ASSERT_EQ(plugins.size(), 1u);
    EXPECT_EQ(plugins[0].state, PluginState::disabled);
    expect_says(plugins[0].reason, c);
    EXPECT_FALSE(registry.find("stage/minimal"));
  }
}

TEST(Refusal, AfterOpeningNamesFieldExpectedFound) {
  for (const auto& c : after) {
    SCOPED_TRACE(c.what);
    PluginsFolder folder;
    folder.add(c.manifest, c.library);
    auto registry = folder.scan();
    ASSERT_EQ(registry.plugins()[0].state, PluginState::ready) << registry.plugins()[0].reason;
    const auto opened = registry.open("stage/minimal");
    ASSERT_FALSE(opened);
    expect_says(opened.failure().message, c);
    EXPECT_EQ(registry.plugins()[0].state, PluginState::disabled);
    expect_says(registry.plugins()[0].reason, c);
  }
}

TEST(Refusal, UnknownValuesOfAComponentAndItsTableAreNamed) {
  for (const auto& [library, says] :
       {std::pair{"unknown_in_component",
                  "reserved of stage/ends's kinora_component is 7, which this Kinora"},
        {"unknown_in_table", "reserved of stage/ends's kinora.stage/1 table is 7, which this Kinora"}}) {
    PluginsFolder folder;
    folder.add({.name = "ends", .id = "stage/ends"}, library);
    const auto opened = folder.scan().open("stage/ends");
    ASSERT_FALSE(opened) << library;
    EXPECT_EQ(opened.failure().code, KINORA_ERROR_UNSUPPORTED);
    EXPECT_THAT(opened.failure().message, HasSubstr(says));
  }
}

// The number after struct_size is `reserved`, or a choice (sees, mix) with a last known value.
TEST(Refusal, EveryKindsTableIsRefusedForAnUnknownNumber) {
  for (const Kind& kind : kinds()) {
    SCOPED_TRACE(kind.name);
    std::vector<uint32_t> table(kind.table_size / sizeof(uint32_t),
                                1);  // no function is null, none is called
    const std::string id = kind.name + std::string("/acme.one");
    const kinora_component component{sizeof component, 0,       id.c_str(), kind.interface,
                                     table.data(),     nullptr, nullptr};
    const kinora_plugin plugin{sizeof plugin, KINORA_ABI_MAJOR, 0, 1, "acme", "0.1.0", &component};
    PluginSpec spec;
    spec.name = "acme", spec.version = "0.1.0", spec.abi_major = KINORA_ABI_MAJOR;
    spec.components.emplace_back();
    spec.components[0].id = id, spec.components[0].kind = kind.name;
    table[0] = kind.table_size;
    for (const bool known : {true, false}) {
      table[1] = kind.last_known + (known ? 0 : 1);
      const Status status = check_opened(plugin, spec);
      ASSERT_EQ(static_cast<bool>(status), known);
      if (known) continue;
      EXPECT_EQ(status.failure().code, KINORA_ERROR_UNSUPPORTED);
      EXPECT_THAT(status.failure().message, HasSubstr(fmt::format("{} of {}'s {} table is {}", kind.word, id,
                                                                  kind.interface, table[1])));
    }
  }
}

TEST(Refusal, LeavesTheOtherPluginsAtWork) {
  PluginsFolder folder;
  folder.add({.name = "missing_library", .id = "stage/broken"});
  folder.add({.name = "minimal"});
  auto registry = folder.scan();
  EXPECT_FALSE(registry.open("stage/broken"));
  EXPECT_FALSE(registry.open("stage/broken"));
  const auto good = registry.open("stage", "minimal");
  ASSERT_TRUE(good) << good.failure().message;
  EXPECT_EQ(good->table<kinora_stage>().struct_size, sizeof(kinora_stage));
}

TEST(Refusal, PinnedPluginNeedsLibtorchFirst) {
  PluginsFolder folder;
  folder.add({.name = "minimal", .tier = "pinned", .more = "torch = \"==2.11.0\"\ncxx_abi = \"1\"\n"});
  auto registry = folder.scan();
  const auto opened = registry.open("stage/minimal");
  ASSERT_FALSE(opened);
  EXPECT_THAT(opened.failure().message, HasSubstr("libtorch"));
}

}  // namespace
}  // namespace kinora::core::test
