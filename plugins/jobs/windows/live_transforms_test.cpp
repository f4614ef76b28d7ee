// Transforms of a job whose input is a table of data, on real clips.
#include <gmock/gmock.h>

#include "core/run/identity.hpp"
#include "plugins/jobs/training/video_jobs_testing.hpp"
#include "plugins/jobs/windows/live_windows.hpp"
#include "tests/support/refusal.hpp"

namespace kinora::core {
namespace {

using ::testing::HasSubstr;

std::unique_ptr<ScratchRun> transforming(const std::string& transforms, const ClipFacts& facts = {}) {
  return prepared({{"latents", "transforms = [" + transforms + "]\n"}}, facts);
}

struct TransformedWindow {
  std::string key, text;
  at::Tensor frames;
  json facts;
};
struct TransformedWindows {
  std::vector<TransformedWindow> all;
  json lost;  // LostSamples::counts()
};

// The windows of the first slots, of the run's shards as a table of data.
TransformedWindows first_windows(const ScratchRun& run, uint64_t slots = 5) {
  JobSpec spec = run.spec("latents");
  spec.data.emplace();
  spec.data->path = run.of("shards").string();
  spec.data->shuffle = 3;
  LiveWindows live(JobView(test::runtime(), run.run(), spec), {{kFrames, 16, 32}}, kEvery);
  TransformedWindows out;
  for (uint64_t slot = 0; slot < slots; ++slot)
    live.at(
        slot, [](const std::string&) { return true; },
        [&](const LiveWindows::Window& w) {
          out.all.push_back({w.key, w.text, w.frames(), w.facts});
        });
  out.lost = live.lost().counts();
  return out;
}

void expect_frames(const TransformedWindows& got, const TransformedWindows& plain,
                   const std::function<at::Tensor(const at::Tensor&)>& change) {
  ASSERT_EQ(got.all.size(), plain.all.size());
  for (size_t i = 0; i < got.all.size(); ++i) {
    EXPECT_EQ(got.all[i].key, plain.all[i].key);
    EXPECT_TRUE(at::equal(got.all[i].frames, change(plain.all[i].frames))) << got.all[i].key;
    EXPECT_FALSE(at::equal(got.all[i].frames, plain.all[i].frames));
  }
}

TEST(LiveTransforms, ChangeTheDecodedFrames) {
  const auto plain = first_windows(*prepared());
  expect_frames(first_windows(*transforming("{ use = 'video.flip', probability = 1.0 }")), plain,
                [](const at::Tensor& frames) { return frames.flip(2); });
  expect_frames(first_windows(*transforming("{ use = 'video.crop', height = 8, width = 24, at = 'center' }")),
                plain, [](const at::Tensor& frames) { return frames.narrow(1, 4, 8).narrow(2, 4, 24); });
}

TEST(LiveTransforms, DrawForEachSlot) {
  const json two{{"captions", {"left", "right"}}};
  const auto run = transforming("{ use = 'caption.choose', of = ['captions'] }", {{"a", two}, {"c", two}});
  const auto windows = first_windows(*run, 20), again = first_windows(*run);
  std::set<std::string> seen;
  for (const auto& window : windows.all) seen.insert(window.text);
  EXPECT_EQ(seen, (std::set<std::string>{"left", "right"}));
  for (size_t i = 0; i < again.all.size(); ++i) EXPECT_EQ(again.all[i].text, windows.all[i].text);
}

TEST(LiveTransforms, ThatDropOrFailReplaceTheSample) {
  const auto run = transforming("{ use = 'filter.facts', fact = 'score', at_least = 3.0 }",
                                {{"a", {{"score", 1}}}, {"c", {{"score", 5}}}});
  const auto windows = first_windows(*run);
  for (const auto& window : windows.all) EXPECT_THAT(window.key, ::testing::StartsWith("c@"));
  EXPECT_EQ(windows.lost, json({{"failed", 2}, {"too_short", 0}, {"dropped", {{"filter.facts.score", 1}}}}))
      << "b and d have no score; a is dropped, which is no failure";
}

TEST(LiveTransforms, ThatDropEverySampleAreNamed) {
  const json low{{"score", 1}};
  const auto run = transforming("{ use = 'filter.facts', fact = 'score', at_least = 3.0 }",
                                {{"a", low}, {"b", low}, {"c", low}, {"d", low}});
  EXPECT_THAT(
      test::refusal([&] { first_windows(*run, 1); }),
      HasSubstr("/shards: 1000 samples in a row cannot be used: 1000 dropped by filter.facts.score; "));
}

TEST(LiveTransforms, NeedJsonThatIsJson) {
  const auto run = transforming("{ use = 'video.flip', probability = 1.0 }");
  std::ofstream(run->folder() / "fields/a.json") << "{\"score\": ";
  ASSERT_EQ(std::system(fmt::format("cd '{}' && tar --format=ustar -cf '{}/shard-000000.tar' a.* b.* c.* d.*",
                                    (run->folder() / "fields").string(), run->of("shards").string())
                            .c_str()),
            0);
  const auto windows = first_windows(*run);
  for (const auto& window : windows.all) EXPECT_THAT(window.key, ::testing::StartsWith("c@"));
  EXPECT_EQ(windows.lost.at("failed"), 2) << "a has broken JSON, b is not a video";
}

// From the first transform that reads frames on, all run on the decoded window.
TEST(LiveTransforms, KeepTheOrderOfTheirList) {
  const std::string measure = "{ use = 'filter.brightness', mode = 'score' }",
                    bound = "{ use = 'filter.facts', fact = 'scores.filter.brightness', at_least = 0.0 }";
  for (const auto& window : first_windows(*transforming(measure + ", " + bound), 3).all)
    EXPECT_GT(window.facts.at("scores").at("filter.brightness").get<double>(), 0);
  EXPECT_THAT(test::refusal([&] { first_windows(*transforming(bound + ", " + measure), 1); }),
              HasSubstr("has no number 'scores.filter.brightness'"));
}

TEST(LiveTransforms, ArePartOfTheJobsIdentity) {
  const std::string flip = "transforms = [{ use = 'video.flip', probability = 0.5 }]\n";
  const ScratchRun run({{"latents", flip}});
  ASSERT_EQ(run.problems(), "");
  const JobSpec& with = run.spec("latents");
  JobSpec without = with, other = with;
  std::erase_if(without.components, [](const ComponentUse& use) { return use.slot == "transforms"; });
  for (auto& use : other.components)
    if (use.slot == "transforms")
      use.options =
          or_throw(Options::make(*or_throw(run.run().registry->find(use.id)), json{{"probability", 0.25}}));
  JobIdentities identities(run.run());
  const std::string digest = identities.of(with).digest;
  EXPECT_NE(identities.of(without).digest, digest);
  EXPECT_NE(identities.of(other).digest, digest);
}

TEST(LiveTransforms, SayWhereTheyHaveNoEffect) {
  const auto refused = [](const std::string& transforms, bool has_table) {
    const auto run = transforming(transforms);
    JobSpec spec = run->spec("latents");
    if (has_table) spec.data.emplace().path = run->of("shards").string();
    return test::refusal([&] {
      JobContext context(test::runtime(), run->run(), spec);
      test::run_job(context);
    });
  };
  EXPECT_THAT(refused("'video.flip'", false),
              HasSubstr("transforms: they change the samples of a table of data"));
  EXPECT_THAT(refused("{ use = 'video.flip', name = 'one' }, { use = 'video.crop', from = 'one' }", true),
              HasSubstr("transforms: each takes the samples of the one before it; leave `from` out"));
}

}  // namespace
}  // namespace kinora::core
