// Generation by several ranks with any strategy: the same seed gives the same videos.
#include <algorithm>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "core/run/job.hpp"
#include "core/torch/weights/safe_tensors.hpp"
#include "plugins/jobs/media/strip.hpp"
#include "plugins/jobs/latents/latent_cache.hpp"
#include "plugins/jobs/latents/latents.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/refusal.hpp"
#include "tests/support/run_file.hpp"

namespace kinora {
namespace {

namespace fs = std::filesystem;
using at::Tensor;
using test::Rank;
using test::ScratchRun;

constexpr int kVideos = 3;
const std::string kPrompts = "prompts = ['red sea', 'blue', 'sea blue']\n",
                  kUnequal = "prompts_file = 'FOLDER/wishes.jsonl'\n";

// A run up to a trained model, of 15 latent frames, so that ranks decode them with the preceding frames.
std::unique_ptr<ScratchRun> trained(const std::string& parallel, const std::string& more) {
  auto run = std::make_unique<ScratchRun>(std::map<std::string, std::string>{
      {"tokenizer",
       "tokenizer = { use = 'wan', base_dim = 4, z_dim = 2, dim_mult = [1, 1, 1, 1], num_res_blocks = 1, "
       "normalise = false }"},
      {"film",
       (more == kUnequal ? "prompts = []\n" : kPrompts) +
           "format = ['latents', 'png']\nguidance = 2.5\nnegative = 'red'\nprecision = 'fp64'\nparallel = [" +
           parallel + "]\n" + more}});
  std::ofstream(run->folder() / "wishes.jsonl") << R"({"prompt": "red sea"}
{"prompt": "blue", "negative": ""}
{"prompt": "sea blue"}
)";
  EXPECT_EQ(run->problems(), "");
  at::manual_seed(7);
  fs::create_directories(run->of("latents"));
  core::LatentCacheWriter cache(run->of("latents") / "latents.h5", "{}");
  cache.add("0", {{"latent", at::randn({2, 15, 2, 4})}, {"text", at::randn({2, 12})}});
  cache.commit();
  core::LatentFacts facts;
  facts.scale = {{0.1, -0.2}, {1.5, 0.7}, 0.5};
  facts.shape = {2, 15, 2, 4};
  facts.text_size = 12;
  std::ofstream(run->of("latents") / "latents.json") << facts.to_json().dump();
  ScratchRun::save(*run->tokenizer("tokenizer"), run->of("tokenizer") / "weights.safetensors");
  ScratchRun::save(*run->model("latents", "text"), run->folder() / "text.safetensors");
  ScratchRun::save(*run->model("dit"), run->of("dit") / "weights.safetensors");
  return run;
}

struct Video {
  Tensor latent;
  std::vector<std::string> frames;  // bytes of the lossless pictures
};

std::string bytes_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::vector<Video> videos_in(const fs::path& folder) {
  std::vector<Video> out;
  for (int i = 0; i < kVideos; ++i) {
    const std::string name = fmt::format("{:03}", i);
    out.push_back({core::read_tensors(folder / (name + ".latents.safetensors")).at("latent").clone(), {}});
    for (int f = 0; f < 1 + 14 * 4; ++f) {
      const auto png = folder / name / fmt::format("{:05}.png", f);
      EXPECT_TRUE(fs::exists(png)) << png;
      out.back().frames.push_back(bytes_of(png));
    }
  }
  return out;
}

// Writes the job's videos into one folder of all ranks, like a shared file system.
void generate(const ScratchRun& run, const Rank& me, const fs::path& shared) {
  me.launched();
  fs::create_directories(shared);
  fs::create_directories(run.of("film"));
  fs::create_directory_symlink(shared, run.of("film") / "videos");
  core::JobContext context = run.context("film", me.rank == 0);
  test::run_job(context);
  Rank::alone();
}

// exact: compares the pictures too.
void makes_the_same(const Rank& me, const std::string& parallel, bool exact, const std::string& more = "") {
  static int trial = 0;
  const fs::path together = fs::path(me.folder) / ("together" + std::to_string(trial)),
                 alone = fs::path(me.folder) / ("alone" + std::to_string(trial));
  me.meet("trial" + std::to_string(trial++));
  const auto run = trained(parallel, more);
  generate(*run, me, together);
  if (me.rank != 0) return;
  ASSERT_EQ(run->metrics("film").size(), size_t{kVideos}) << parallel;
  for (size_t i = 0; i < kVideos; ++i) EXPECT_EQ(run->metrics("film")[i].at("number"), i) << "in order";
  const auto single = trained("'ddp'", more);
  generate(*single, {0, 1, me.folder, 0}, alone);
  const auto have = videos_in(together), want = videos_in(alone);
  for (size_t i = 0; i < kVideos; ++i) {
    const double scale = want[i].latent.abs().max().item<double>();
    EXPECT_LE((have[i].latent - want[i].latent).abs().max().item<double>() / scale, exact ? 0 : 1e-6)
        << parallel;
    EXPECT_GT((want[i].latent - want[(i + 1) % kVideos].latent).abs().max().item<double>(), 1e-2);
    if (exact) {
      EXPECT_EQ(have[i].frames, want[i].frames) << parallel << ", video " << i;
    }
    EXPECT_EQ(run->metrics("film")[i].at("model_calls"), single->metrics("film")[i].at("model_calls"));
  }
}

TEST(Generating, MakesTheSameVideosOnAnyRanks) {
  test::on_ranks(
      2,
      [](const Rank& me) {
        makes_the_same(me, "'cfg'", true);
        makes_the_same(me, "'cfg'", true, "guidance_interval = [0.1, 10.0]\n");
        makes_the_same(me, "'ddp'", true);
        makes_the_same(me, "'balanced-sp'", false);
      },
      120);
  test::on_ranks(
      4,
      [](const Rank& me) {
        makes_the_same(me, "'ddp', 'cfg'", true);
        makes_the_same(me, "'cfg', 'stdit-hybrid'", false);
        makes_the_same(me, "'ddp'", true);  // one more rank than videos
      },
      120);
}

// fsdp gives the same numbers as one process; tp and a pipeline's stages differ only by the order of
// sums. The text encoder's parameters are split with the model's under fsdp.
TEST(Generating, MakesTheSameVideosWithAModelThatFitsNoRank) {
  test::on_ranks(
      2,
      [](const Rank& me) {
        makes_the_same(me, "'fsdp'",
                       true);  // an odd number of videos: at the end one rank computes for the other
        makes_the_same(me, "{use = 'fsdp', stage = 2}", true);
        makes_the_same(me, "'tp'", false);
        makes_the_same(me, "'pp'", true);
      },
      120);
  test::on_ranks(
      4,
      [](const Rank& me) {
        makes_the_same(me, "'fsdp'", true);
        makes_the_same(me, "{use = 'tp', size = 2}, 'fsdp'", false);
        makes_the_same(me, "'pp', 'cfg'", true);
        makes_the_same(me, "{use = 'fsdp', size = 2}, 'cfg'", true);
      },
      120);
}

// One of three videos has no negative prompt, and so one call of the text encoder less.
TEST(Generating, KeepsRanksInStepThatShareParameters) {
  test::on_ranks(
      2, [](const Rank& me) { makes_the_same(me, "'fsdp'", true, kUnequal); }, 120);
}

// The same error as in training, and only that.
TEST(Generating, SaysWhichSizesATensorGroupCanHave) {
  test::on_ranks(3, [](const Rank& me) {
    const auto run = trained("'tp'", "");
    me.launched();
    core::JobContext context = run->context("film", me.rank == 0);
    const auto why = test::refusal([&] { test::run_job(context); });
    EXPECT_NE(why.find("tp: size = 3 must divide the heads"), std::string::npos) << why;
    EXPECT_NE(why.find("use size = 2"), std::string::npos) << why;
  });
}

TEST(Generating, GoesOnWhereItWasLeftOff) {
  test::on_ranks(2, [](const Rank& me) {
    const fs::path shared = fs::path(me.folder) / "videos";
    const auto run = trained("'ddp'", "");
    generate(*run, me, shared);
    me.meet("made");
    const auto before = me.rank == 0 ? videos_in(shared) : std::vector<Video>();
    if (me.rank == 0) fs::remove(shared / "001.json"), fs::remove_all(shared / "001");
    const auto kept = me.rank == 0 ? fs::last_write_time(shared / "002.json") : fs::file_time_type();
    me.meet("dropped");
    fs::remove(run->of("film") / "videos");
    generate(*run, me, shared);
    if (me.rank != 0) return;
    EXPECT_EQ(fs::last_write_time(shared / "002.json"), kept);
    const auto after = videos_in(shared);
    for (size_t i = 0; i < kVideos; ++i) EXPECT_EQ(after[i].frames, before[i].frames);
  });
}

}  // namespace
}  // namespace kinora
