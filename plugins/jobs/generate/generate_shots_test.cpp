// Wrong shots of prompts_file are problems before any job has run.
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "host/stages/stage_check.hpp"
#include "tests/support/run_file.hpp"

namespace kinora::core::generate_shots {
namespace {

using testing::HasSubstr;
using testing::Not;

const std::string kForced = "teacher_forcing = true\nchunk = 1\n";

// lines: of prompts_file.
std::string problems(const std::string& lines, const std::string& dit = kForced,
                     const std::string& film = "") {
  const test::ScratchRun run(
      {{"dit", dit}, {"film", "prompts = []\nprompts_file = 'FOLDER/film.jsonl'\n" + film}});
  EXPECT_EQ(run.problems(), "");
  std::ofstream(run.folder() / "film.jsonl") << lines;
  std::string all;
  for (const auto& p : check_jobs(test::runtime(), run.run(), 0)) all += format(p) + "\n";
  return all;
}

TEST(ShotsOfAFile, AreReadBeforeAnyJobRuns) {
  const std::string good = R"({"shots": [{"prompt": "sea", "chunks": 1}, {"prompt": "red", "seconds": 3}]})";
  EXPECT_THAT(problems(good), Not(HasSubstr("film.jsonl")));
  for (const auto& [line, message] : std::vector<std::pair<std::string, std::string>>{
           {R"({"shots": [{"prompt": "sea", "chunks": 1, "switch": "fade"}]})",
            "film.jsonl:2: shot 1: 'switch' is one of none, recache, blend and flush"},
           {R"({"shots": [{"prompt": "sea", "chunks": 1}, {"prompt": "sea", "seconds": 0}]})",
            "film.jsonl:2: shot 2: 'seconds' takes a number above 0"},
           {R"({"shots": [{"prompt": "sea", "chunks": 0}]})",
            "film.jsonl:2: shot 1: 'chunks' takes a number from 1 on"},
           {R"({"shots": ["sea"]})", "film.jsonl:2: shot 1: expected a table"},
           {R"({"shots": [{"prompt": "sea")", "film.jsonl:2: expected an object"}})
    EXPECT_THAT(problems(good + "\n" + line), HasSubstr(message)) << line;
}

TEST(ShotsOfAFile, NeedAVideoThatIsMadeInChunksOnACache) {
  const std::string one = R"({"shots": [{"prompt": "sea", "chunks": 3}]})",
                    two = R"({"shots": [{"prompt": "sea", "chunks": 1}, {"prompt": "red", "chunks": 2}]})";
  EXPECT_THAT(problems(one, ""),
              HasSubstr("shots need a cache of keys and values: cache is for models that draw"));
  EXPECT_THAT(problems(R"({"prompt": "sea"})", ""), Not(HasSubstr("shots need")));
  const std::string ring = "parallel = ['cp-ring']";
  EXPECT_THAT(problems(two, kForced, ring), HasSubstr("shots need a cache of keys and values: cache needs"));
  EXPECT_THAT(problems(one, kForced, ring), Not(HasSubstr("shots need")));
}

TEST(ShotsOfAFile, AreTheOnlyOnesOfTheirJob) {
  const std::string line = R"({"prompt": "sea"})", shots = "shots = [{ prompt = 'red', chunks = 2 }]\n";
  EXPECT_THAT(problems(line, kForced, shots), HasSubstr("shots and prompts_file are both given"));
  const test::ScratchRun run({{"dit", kForced}, {"film", "prompts = ['sea']\n" + shots}});
  std::string both;
  for (const auto& p : check_jobs(test::runtime(), run.run(), 0)) both += format(p) + "\n";
  EXPECT_THAT(both, HasSubstr("shots and prompts are both given"));
}

// Frames of a video that it begins with are fewer than those of its shots, which are more than the training's.
TEST(ShotsOfAFile, DecideHowManyFramesMayBeGiven) {
  const std::string shots = R"({"shots": [{"prompt": "sea", "chunks": 9}]})",
                    words = "so none is left to generate";
  const std::string video = "video = '" + std::string(KINORA_TEST_DATA) + "/bbb_A.mp4'\ncondition_frames = ";
  const std::string given = problems(R"({"prompt": "sea"})", kForced, video + "65");
  EXPECT_THAT(given, HasSubstr(words));
  EXPECT_THAT(problems(shots, kForced, video + "17"), Not(HasSubstr("condition_frames")));
  EXPECT_THAT(problems(shots, kForced, video + "129"), HasSubstr("of 9 latent frames, " + words));
}

// Seven latent frames and a cut: the last one is at 6 + shot_jump.
TEST(ShotsOfAFile, NeedAsManyPositionsAsTheModelHasLearnt) {
  const std::string learnt = kForced +
                             "model = { use = 'dit', in_channels = 2, out_channels = 2, text_size = 12, "
                             "layers = 1, heads = 2, head_size = "
                             "12, adaln_lora = 4, learnable_pos_embed = true, max_size = [8, 8, 8] }\n";
  const std::string shots = R"({"shots": [{"prompt": "sea", "chunks": 4}, {"prompt": "red", "chunks": 3}]})";
  EXPECT_THAT(
      problems(shots, learnt, "shot_jump = 2"),
      HasSubstr("the shots need 9 positions in time, jumps at cuts included, and model/dit has learnt 8"));
  EXPECT_THAT(problems(shots, learnt, "shot_jump = 1"), Not(HasSubstr("positions")));
  EXPECT_THAT(problems(shots, kForced, "shot_jump = 2"), Not(HasSubstr("positions"))) << "none are learnt";
}

}  // namespace
}  // namespace kinora::core::generate_shots
