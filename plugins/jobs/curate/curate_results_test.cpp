// Tests that the files that a node has stored become those of the job.
#include "plugins/jobs/curate/curate_results.hpp"

#include <fstream>
#include <unistd.h>

#include <gtest/gtest.h>

#include "kinora/error.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;

class StoredByANode : public testing::Test {
 protected:
  StoredByANode() : folder_(fs::path(testing::TempDir()) / ("stored-" + std::to_string(getpid()))) {
    fs::remove_all(folder_);
    fs::create_directories(node() / "deep");
    fs::create_directories(data());
    std::ofstream(node() / "deep/a-0000.mp4") << "movie";
    std::ofstream(node() / "deep/a-0000.txt") << "text";
  }
  ~StoredByANode() override { fs::remove_all(folder_); }

  fs::path node() const { return folder_ / "work/stored/1-0"; }
  fs::path data() const { return folder_ / "data"; }
  // The message of the error.
  std::string taken(const json& files) const {
    try {
      EXPECT_EQ(take_stored(data(), node(), files.dump().c_str()), files);
      return "";
    } catch (const Error& e) {
      return e.what();
    }
  }
  int files_in_data() const {
    int out = 0;
    for (const auto& entry : fs::recursive_directory_iterator(data())) out += entry.is_regular_file();
    return out;
  }

  const fs::path folder_;
};

TEST_F(StoredByANode, AreMovedUnderTheirNames) {
  EXPECT_EQ(taken({{"deep/a-0000.mp4", 5}, {"deep/a-0000.txt", 4}}), "");
  EXPECT_EQ(fs::file_size(data() / "deep/a-0000.mp4"), 5u);
  EXPECT_EQ(fs::file_size(data() / "deep/a-0000.txt"), 4u);
  EXPECT_FALSE(fs::exists(node() / "deep/a-0000.mp4"));
}

TEST_F(StoredByANode, ReplaceWhatAnEarlierRunHasLeft) {
  fs::create_directories(data() / "deep");
  std::ofstream(data() / "deep/a-0000.txt") << "of an earlier run";
  EXPECT_EQ(taken({{"deep/a-0000.txt", 4}}), "");
  EXPECT_EQ(fs::file_size(data() / "deep/a-0000.txt"), 4u);
}

TEST_F(StoredByANode, AllOrNoneAreThere) {
  const std::string missing = taken({{"deep/a-0000.mp4", 5}, {"deep/b-0000.mp4", 5}});
  EXPECT_NE(missing.find("work/stored/1-0/deep/b-0000.mp4: a node has stored it"), std::string::npos)
      << missing;
  EXPECT_NE(missing.find("store = \"driver\""), std::string::npos) << missing;
  EXPECT_EQ(files_in_data(), 0);
  const std::string shorter = taken({{"deep/a-0000.txt", 5}});
  EXPECT_NE(shorter.find("(expected 5 bytes)"), std::string::npos) << shorter;
  EXPECT_EQ(files_in_data(), 0);
}

TEST_F(StoredByANode, AreNotTakenFromOutsideTheirFolder) {
  std::ofstream(folder_ / "work/secret") << "secret";
  EXPECT_NE(taken({{"../../secret", 6}}).find("outside its folder"), std::string::npos);
  EXPECT_TRUE(fs::exists(folder_ / "work/secret"));
}

}  // namespace
}  // namespace kinora::core
