#include "apps/studio/meaning.hpp"

#include <atomic>
#include <cmath>
#include <fstream>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kinora/npy.hpp"

namespace kinora::studio {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::DoubleNear;
using testing::HasSubstr;
using testing::Pair;
using testing::UnorderedElementsAre;

using Vectors = std::vector<std::vector<float>>;

// [1, 0] for "x", [0, 1] for "y", and a vector between them for every other text.
std::vector<float> vector_of(const std::string& text) {
  return text == "x"   ? std::vector<float>{1, 0}
         : text == "y" ? std::vector<float>{0, 1}
                       : std::vector<float>{0.6F, 0.8F};
}

class MeaningTest : public testing::Test {
 protected:
  MeaningTest() {
    std::string name = (fs::temp_directory_path() / "kinora-studio-XXXXXX").string();
    folder_ = fs::canonical(mkdtemp(name.data()));
    fs::create_directories(folder_ / "clips/data");
    write("clips/job.json", R"({"kind": "curate"})");
    write("clips/items.jsonl", "");
  }
  ~MeaningTest() override { fs::remove_all(folder_); }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
  }
  void picture(const std::string& key, std::vector<float> vector) const {
    write("clips/data/" + key + ".classic.npy", to_npy(vector, {2}));
  }
  void captions(const std::vector<std::string>& keys, const std::vector<float>& rows,
                const char* encoder = "fake") const {
    fs::create_directories(folder_ / "captions");
    write("captions/text.npy", to_npy(rows, {static_cast<int64_t>(keys.size()), 2}));
    write("captions/text.json",
          json{{"clips", "../clips/data"}, {"keys", keys}, {"encoder", {{"text", encoder}}}}.dump());
  }
  std::unique_ptr<Meaning> opened(const std::string& folder = "") {
    return std::make_unique<Meaning>(folder_ / folder, curate_jobs(folder_ / folder),
                                     [this](const json&, const std::vector<std::string>& texts) {
                                       encoded_ += static_cast<int>(texts.size());
                                       Vectors out;
                                       for (const auto& text : texts) out.push_back(vector_of(text));
                                       return out;
                                     });
  }

  fs::path folder_;
  std::atomic<int> encoded_ = 0;
};

auto near(const char* id, double value) { return Pair(id, DoubleNear(value, 1e-6)); }

TEST_F(MeaningTest, RanksByCaptionsAndByEditedOnesWithoutEncodingATextTwice) {
  captions({"a", "b", "c"}, {1, 0, 0, 1, 0.6F, 0.8F});
  const auto m = opened();
  EXPECT_THAT(m->ask({"x", "", "", {}})->similarity,
              UnorderedElementsAre(near("clips/a", 1), near("clips/b", 0), near("clips/c", 0.6)));
  const Question edited{"x", "", "", {{"clips/a", "y"}, {"clips/b", ""}, {"clips/new", "z"}}};
  EXPECT_THAT(m->ask(edited)->similarity,
              UnorderedElementsAre(near("clips/a", 0), near("clips/c", 0.6), near("clips/new", 0.6)));
  EXPECT_EQ(encoded_, 3);  // x, y, z
  EXPECT_EQ(m->ask(edited), m->ask(edited));
  EXPECT_EQ(encoded_, 3);
}

TEST_F(MeaningTest, SaysWhichSimilaritiesAreTooSmallForAMatch) {
  captions({"a", "b", "c"}, {1, 0, 0, 1, 0.6F, 0.8F});
  const auto answer = opened()->ask({"x", "", "", {}});
  EXPECT_EQ(answer->remark, "");
  EXPECT_TRUE(std::isnan(answer->unmatched)) << "the bound is that of MiniLM's cosines";
  captions({"a", "b", "c"}, {1, 0, 0, 1, 0.6F, 0.8F}, "model/minilm");
  EXPECT_NEAR(opened()->ask({"x", "", "", {}})->unmatched, 0, 1e-6) << "b, not c with 0.6";
}

TEST_F(MeaningTest, RanksByPicturesAndSeesARunThatGrows) {
  picture("a", {1, 0});
  picture("b", {0.6F, 0.8F});
  const auto m = opened("clips");  // opened on the job alone
  EXPECT_THAT(m->ask({"", "clips/b", "", {}})->similarity,
              UnorderedElementsAre(near("clips/a", 0.6), near("clips/b", 1)));
  EXPECT_THAT(m->ask({"x", "", "", {}})->why, HasSubstr("embed-text"));
  EXPECT_FALSE(m->offer().text);
  EXPECT_THAT(m->offer().pictures, testing::ElementsAre("classic"));
  picture("c", {0, 1});
  captions({"a"}, {1, 0});
  write("clips/items.jsonl", "{}\n");
  EXPECT_EQ(m->ask({"", "clips/a", "classic", {}})->similarity.size(), 3U);
  EXPECT_THAT(m->ask({"x", "", "", {}})->similarity, UnorderedElementsAre(near("clips/a", 1)));
  EXPECT_TRUE(m->offer().text);
}

TEST_F(MeaningTest, SaysThatTheJobOfTheRunFileHasNotRunYet) {
  picture("a", {1, 0});
  const fs::path file = folder_ / "footage.toml";
  write("footage.toml",
        "[[job]]\nname = \"clips\"\nkind = \"curate\"\n[[job]]\nname = \"captions\"\n"
        "kind = \"embed-text\"\n");
  write("clips/job.json", json{{"kind", "curate"}, {"file", file.string()}}.dump());
  const std::string why =
      "the captions are not embedded yet: job 'captions' (embed-text) of footage.toml has not run here";
  const auto m = opened();
  EXPECT_EQ(m->ask({"x", "", "", {}})->why, why);
  EXPECT_EQ(m->offer().why_not_text, why);
  write("footage.toml", "[[job]]\nname = \"clips\"\nkind = \"curate\"\n");
  EXPECT_THAT(opened()->ask({"x", "", "", {}})->why, HasSubstr("add a job of kind embed-text"));
}

TEST_F(MeaningTest, AMapHasAPlaceForEachClipWithAnEmbedding) {
  picture("a", {1, 0});
  picture("b", {0, 1});
  picture("c", {1, 0});
  const auto answer = opened()->ask({"", "", "", {}, true});
  EXPECT_EQ(answer->why, "");
  EXPECT_EQ(answer->all, 3U);
  std::map<std::string, Place> places(answer->places.begin(), answer->places.end());
  ASSERT_EQ(places.size(), 3U);
  EXPECT_EQ(places["clips/a"], places["clips/c"]);
  EXPECT_NEAR(std::abs(places["clips/a"][0] - places["clips/b"][0]), std::sqrt(2),
              1e-5);  // distance of their vectors
}

TEST_F(MeaningTest, WhatCannotBeRankedIsSaid) {
  const auto m = opened();
  EXPECT_NE(m->ask({"", "clips/a", "", {}})->why, "");
  EXPECT_NE(m->ask({"", "", "", {}, true})->why, "");
  picture("a", {1, 0});
  write("clips/items.jsonl", "{}\n{}\n");
  EXPECT_THAT(m->ask({"", "clips/none", "", {}})->why,
              HasSubstr("clips/none: the clip has no embedding 'classic'"));
  EXPECT_THAT(m->ask({"", "clips/a", "clip", {}})->why, HasSubstr("no clip has an embedding 'clip'"));
  captions({"a"}, {1, 0});
  write("captions/text.json", "no json");
  EXPECT_THAT(m->ask({"x", "", "", {}})->why, HasSubstr("text.json"));
}

}  // namespace
}  // namespace kinora::studio
