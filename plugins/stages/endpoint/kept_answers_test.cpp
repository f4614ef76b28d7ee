#include "kept_answers.hpp"

#include <filesystem>
#include <unistd.h>

#include <gtest/gtest.h>

#include "kinora/testing.hpp"

namespace kinora::endpoint {
namespace {

namespace fs = std::filesystem;

class KeptAnswersTest : public ::testing::Test {
 protected:
  KeptAnswersTest() {
    kinora::testing::start();
    std::string name = (fs::temp_directory_path() / "kinora-answers-XXXXXX").string();
    run_ = mkdtemp(name.data());
    fs::create_directories(job_ = run_ / "clips");
  }
  ~KeptAnswersTest() override { fs::remove_all(run_); }

  KeptAnswers of(const std::string& key) const { return {job_.string(), "caption.endpoint", key}; }

  fs::path run_, job_;
};

TEST_F(KeptAnswersTest, NothingIsKeptWhereNobodyWantsIt) {
  of("a").keep("body", {{"n", 1}});
  EXPECT_FALSE(of("a").find("body"));
  EXPECT_TRUE(fs::is_empty(job_));
}

TEST_F(KeptAnswersTest, AreFoundBySampleAndBodyWhereverTheJobOfBeforeLies) {
  for (const char* aside : {".clips.before", ".clips.unfinished"})
    for (const char* called : {"answers", ".answers"}) {
      fs::create_directories(job_ / "answers");
      of("a").keep("body", {{"n", 1}});
      EXPECT_EQ(of("a").find("body"), Json({{"n", 1}}));
      fs::rename(job_ / "answers", job_ / called);
      fs::rename(job_, run_ / aside);
      fs::create_directories(job_ / "answers");
      EXPECT_FALSE(of("b").find("body"));
      EXPECT_FALSE(of("a").find("other"));
      EXPECT_EQ(KeptAnswers(job_.string() + "/", "caption.endpoint", "a").find("body"), Json({{"n", 1}}))
          << aside << called;
      fs::remove_all(run_ / aside);
      EXPECT_TRUE(of("a").find("body")) << "the answer is now kept here too";
      fs::remove_all(job_);
    }
}

TEST_F(KeptAnswersTest, OfASampleThatFailedNoneIsFoundAgain) {
  fs::create_directories(job_ / "answers");
  of("a").keep("body", {{"n", 1}});
  of("b").keep("body", {{"n", 2}});
  fs::rename(job_, run_ / ".clips.before");
  fs::create_directories(job_ / "answers");
  EXPECT_TRUE(of("a").find("body"));
  of("a").forget();
  EXPECT_FALSE(of("a").find("body"));
  EXPECT_TRUE(of("b").find("body"));
}

}  // namespace
}  // namespace kinora::endpoint
