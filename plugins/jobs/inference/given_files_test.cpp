// Facts of given videos before they are read.
#include "plugins/jobs/inference/given_files.hpp"

#include <cstdlib>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/run_file.hpp"

namespace kinora::core::given_files {
namespace {

namespace fs = std::filesystem;

class GivenFilesTest : public testing::Test {
 protected:
  GivenFilesTest() {
    std::string name = (fs::temp_directory_path() / "kinora-given-XXXXXX").string();
    folder_ = mkdtemp(name.data());
  }
  ~GivenFilesTest() override { fs::remove_all(folder_); }

  static fs::path data(const std::string& name) { return fs::path(KINORA_TEST_DATA) / name; }
  fs::path copy(const std::string& name) const {
    const fs::path out = folder_ / "given.mp4";
    fs::copy_file(data(name), out, fs::copy_options::overwrite_existing);
    return out;
  }

  fs::path folder_;
  GivenFiles files_{test::runtime(), "film", 0, false};
};

// The WebM, whose packets are counted, and the Ogg file do not say how many they have.
TEST_F(GivenFilesTest, HaveTheLengthOfTheirIndexOrOfTheirFrames) {
  EXPECT_EQ(files_.length(data("bbb_A.mp4")), 125);
  EXPECT_EQ(files_.rate(data("bbb_A.mp4")), 24);
  EXPECT_EQ(files_.rate(data("film_excerpt.webm")), 24);
  EXPECT_EQ(files_.length(data("film_excerpt.webm")), 168);
  EXPECT_EQ(files_.length(data("calais_1906.ogv")), 288);
}

TEST_F(GivenFilesTest, AreNotDecodedForALengthThatTheirIndexHas) {
  const fs::path file = copy("bbb_A.mp4");
  const std::string zeros(fs::file_size(file) / 2, '\0');  // in the place of half of its frames
  std::fstream bytes(file, std::ios::in | std::ios::out | std::ios::binary);
  bytes.seekp(static_cast<std::streamoff>(zeros.size() / 2));
  ASSERT_TRUE(bytes.write(zeros.data(), static_cast<std::streamsize>(zeros.size())).flush());
  EXPECT_EQ(files_.length(file), 125);
}

TEST_F(GivenFilesTest, AreOthersWhenTheyHaveChanged) {
  EXPECT_EQ(files_.length(copy("bbb_A.mp4")), 125);
  EXPECT_EQ(files_.length(copy("bbb_D.mp4")), 48);
}

}  // namespace
}  // namespace kinora::core::given_files
