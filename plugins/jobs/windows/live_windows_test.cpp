#include <gmock/gmock.h>

#include "core/base/log.hpp"
#include "plugins/jobs/latents/latent_cache.hpp"
#include "plugins/jobs/training/video_jobs_testing.hpp"
#include "plugins/jobs/windows/encoded_windows.hpp"
#include "tests/support/refusal.hpp"

namespace kinora::core {
namespace {

using ::testing::HasSubstr;

bool every(const std::string&) { return true; }

// The clips of the run's shards as a table of data.
JobSpec live_spec(const ScratchRun& run, int64_t shuffle = 3) {
  JobSpec out = run.spec("latents");
  out.data = DataInput{.path = run.of("shards").string(), .parts = {}, .shuffle = shuffle};
  return out;
}

TEST(LiveWindows, AreThoseOfACacheOfAllWindows) {
  const auto run = prepared({{"latents", "stride = 1"}});
  JobContext encode = run->context("latents");
  test::run_job(encode);
  const LatentCache cache(run->of("latents") / "latents.h5");
  const JobSpec spec = live_spec(*run);
  EncodedWindows live(JobView(test::runtime(), run->run(), spec), at::kCPU);
  std::set<std::string> keys;
  for (uint64_t slot = 0; slot < 40; ++slot) {
    const auto window = live.at(slot, every);
    keys.insert(window.key);
    const auto kept = cache.read(window.key);
    ASSERT_EQ(kept.size(), window.tensors.size());
    for (const auto& [name, tensor] : kept) EXPECT_TRUE(at::equal(tensor, window.tensors.at(name))) << name;
  }
  // Two clips of 16 of the wanted frames, and windows of 9: each of the 16 starts is among 40 with a probability of
  // 0.92. Clip d is too short, and b is not a video.
  EXPECT_GE(keys.size(), 11u);
  EXPECT_EQ(live.lost().failed(), 1);
  EXPECT_EQ(live.lost().too_short(), 1);
}

TEST(LiveWindows, DependOnTheSlotAlone) {
  const auto run = prepared();
  const JobSpec spec = live_spec(*run);
  EncodedWindows one(JobView(test::runtime(), run->run(), spec), at::kCPU),
      other(JobView(test::runtime(), run->run(), spec), at::kCPU);
  for (const uint64_t slot : {7, 100000, 7, 3}) {
    const auto a = one.at(slot, every), b = other.at(slot, every);
    EXPECT_EQ(a.key, b.key);
    EXPECT_TRUE(at::equal(a.tensors.at("latent"), b.tensors.at("latent")));
  }
}

TEST(LiveWindows, OfClipsThatAreNotAcceptedAreReplacedByOthers) {
  const auto run = prepared();
  const JobSpec spec = live_spec(*run);
  EncodedWindows live(JobView(test::runtime(), run->run(), spec), at::kCPU);
  for (uint64_t slot = 0; slot < 10; ++slot)
    EXPECT_THAT(live.at(slot, [](const std::string& key) { return key == "a"; }).key,
                testing::StartsWith("a@"));
  EXPECT_THAT(test::refusal([&] { live.at(0, [](const std::string& key) { return key == "b"; }); }),
              HasSubstr("1000 samples in a row cannot be used"));
}

// Its decoder conceals what is missing and delivers every frame.
TEST(LiveWindows, OfAVideoThatIsDamagedInsideAreReplacedByOthers) {
  const auto run = prepared();
  {
    std::fstream shard(run->of("shards") / "shard-000000.tar",
                       std::ios::binary | std::ios::in | std::ios::out);
    const auto size = fs::file_size(fs::path(KINORA_TEST_DATA) / kClips.at("a"));
    shard.seekp(static_cast<std::streamoff>(512 + size / 3));  // the first member is a.mp4
    shard << std::string(4000, 'x');
  }
  const JobSpec spec = live_spec(*run);
  EncodedWindows live(JobView(test::runtime(), run->run(), spec), at::kCPU);
  const auto accept = [](const std::string& key) { return key == "a" || key == "c"; };
  for (uint64_t slot = 0; slot < 10; ++slot)
    EXPECT_THAT(live.at(slot, accept).key, testing::StartsWith("c@"));
  EXPECT_GE(live.lost().failed(), 1);
}

TEST(LiveWindows, HaveTheSizeThatIsAskedForWhateverSuitsTheirClip) {
  const auto run = prepared();
  const JobSpec spec = live_spec(*run);
  const WindowSize video{kFrames, 16, 32}, picture{1, 16, 16};
  LiveWindows live(JobView(test::runtime(), run->run(), spec), {video, picture}, kEvery);
  for (const auto& size : {video, picture}) {
    std::set<std::string> clips;
    for (uint64_t slot = 0; slot < 12; ++slot)
      live.at(
          slot, every,
          [&](const LiveWindows::Window& window) {
            clips.insert(window.key.substr(0, 1));
            EXPECT_EQ(window.frames().sizes(), at::IntArrayRef({size.frames, size.height, size.width, 3}));
          },
          size);
    EXPECT_EQ(clips,
              size == video ? (std::set<std::string>{"a", "c"}) : (std::set<std::string>{"a", "c", "d"}));
  }
  EXPECT_EQ(live.lost().failed(), 1) << "b is not a video";
  EXPECT_EQ(live.lost().too_short(), 0) << "d is long enough for a picture";
}

// As many short clips as usable ones are within a budget of no failed sample; the damaged one is left out of the data.
TEST(LiveWindows, OfShortClipsSpendNoBudgetOfFailures) {
  const auto run = prepared();
  JobSpec spec = live_spec(*run);
  spec.data->where = "not key == \"b\"";
  spec.data->reading.max_failed = 0;
  EncodedWindows live(JobView(test::runtime(), run->run(), spec), at::kCPU);
  or_throw(set_log_level("warn"));
  testing::internal::CaptureStderr();
  for (uint64_t slot = 0; slot < 12; ++slot) live.at(slot, every);
  const std::string said = testing::internal::GetCapturedStderr();
  or_throw(set_log_level("error"));
  EXPECT_EQ(live.lost().failed(), 0);
  EXPECT_EQ(live.lost().too_short(), 1);
  EXPECT_THAT(said, HasSubstr("d: 6 frames where a window needs 9"));
  EXPECT_THAT(said, HasSubstr("where = \"frames >= 65\""))
      << "one of 8 frames is taken: the first and 8 more";
}

}  // namespace
}  // namespace kinora::core
