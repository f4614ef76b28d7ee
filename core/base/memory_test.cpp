#include "kinora/memory.hpp"

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace kinora {
namespace {

namespace fs = std::filesystem;

struct Case {
  const char* name;
  const char* groups;                                       // of /proc/self/cgroup
  std::vector<std::pair<const char*, const char*>> bounds;  // files of /sys/fs/cgroup
  uint64_t expected;                                        // 0: the machine's
};

class MemoryOfMachine : public testing::TestWithParam<Case> {};

TEST_P(MemoryOfMachine, IsTheLeastBoundOfItsGroups) {
  std::string root = (fs::temp_directory_path() / "kinora-memory-XXXXXX").string();
  ASSERT_NE(mkdtemp(root.data()), nullptr);
  fs::create_directories(root + "/proc/self");
  std::ofstream(root + "/proc/self/cgroup") << GetParam().groups;
  for (const auto& [file, text] : GetParam().bounds) {
    const fs::path path = root + "/sys/fs/cgroup" + file;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text << "\n";
  }
  const uint64_t machine = memory_of_machine(root + "/nowhere");
  EXPECT_GT(machine, uint64_t{1} << 24);
  EXPECT_EQ(memory_of_machine(root), GetParam().expected ? GetParam().expected : machine);
  fs::remove_all(root);
}

INSTANTIATE_TEST_SUITE_P(
    Groups, MemoryOfMachine,
    testing::Values(
        Case{"none", "", {}, 0},
        Case{"max", "0::/a\n", {{"/a/memory.max", "max"}, {"/memory.max", "max"}}, 0},
        Case{"own", "0::/a/b\n", {{"/a/b/memory.max", "1048576"}, {"/a/memory.max", "2097152"}}, 1048576},
        Case{"above", "0::/a/b\n", {{"/a/b/memory.max", "max"}, {"/a/memory.max", "2097152"}}, 2097152},
        Case{"top", "0::/\n", {{"/memory.max", "4096"}}, 4096},
        Case{"outside", "0::/docker/abc\n", {{"/memory.max", "4096"}}, 4096},
        Case{"old", "5:cpu:/c\n4:memory:/a\n0::/\n", {{"/memory/a/memory.limit_in_bytes", "8192"}}, 8192},
        Case{"old_above",
             "4:hugetlb,memory:/a\n",
             {{"/memory/a/memory.limit_in_bytes", "9223372036854771712"},
              {"/memory/memory.limit_in_bytes", "8192"}},
             8192},
        Case{"other", "4:memory_other:/a\nno line\n", {{"/memory/a/memory.limit_in_bytes", "8192"}}, 0}),
    [](const auto& given) { return given.param.name; });

}  // namespace
}  // namespace kinora
