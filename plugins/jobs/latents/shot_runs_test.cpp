// Which clips make a sample of several shots, and how it is joined.
#include "plugins/jobs/latents/shot_runs.hpp"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plugins/jobs/latents/latents.hpp"
#include "tests/support/refusal.hpp"

namespace kinora::core::shot_runs_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(ShotRuns, AreClipsWithSuccessiveNumbersOfOneVideo) {
  const auto runs = shot_runs({"sea-a-0000@0", "sea-a-0000@9", "sea-a-0000@18", "sea-a-0001@0",
                               "sea-a-0001@9", "sea-a-0002@0", "sea-a-0004@0", "sky-0005@0", "sky-0006@0"},
                              2);
  std::vector<std::string> keys;
  for (const auto& run : runs) keys.push_back(run.key);
  EXPECT_THAT(keys, ElementsAre("sea-a@0000:0+0001:0", "sea-a@0000:9+0001:9", "sea-a@0001:0+0002:0",
                                "sky@0005:0+0006:0"));
  EXPECT_THAT(runs[1].windows, ElementsAre("sea-a-0000@9", "sea-a-0001@9"));
  const auto three = shot_runs({"sea-0000@0", "sea-0001@0", "sea-0002@0", "sky-0000@0", "sky-0001@0"}, 3);
  ASSERT_EQ(three.size(), 1u);
  EXPECT_THAT(three[0].windows, ElementsAre("sea-0000@0", "sea-0001@0", "sea-0002@0"));
}

TEST(ShotRuns, RefuseKeysWithoutAnOrderAndVideosWithTooFewClips) {
  for (const char* key : {"sea@0", "sea-one@0", "sea-1@0", "sea-00x1@0"})
    EXPECT_THAT(test::refusal([&] {
                  shot_runs({"sky-0000@0", key}, 2);
                }),
                HasSubstr("does not say which clip of its video it is, as VIDEO-0003 does"))
        << key;
  EXPECT_THAT(test::refusal([] {
                shot_runs({"sea-0000@0", "sea-0002@0"}, 2);
              }),
              HasSubstr("shots = 2: none of the 1 videos has so many encoded clips with successive numbers"));
}

LatentItem window(const std::string& key, double first, int64_t tokens, double fps = 24) {
  return {key,
          at::arange(first, first + 5, at::kDouble).view({1, 5, 1, 1}),
          at::full({tokens, 3}, first, at::kDouble),
          {{"fps", at::tensor(fps)}},
          {}};
}

TEST(JoinedShots, KeepWholeChunksOfEachShotAndItsText) {
  const auto made = joined_shots("sea@", {window("a", 0, 2), window("b", 10, 0), window("c", 20, 1)}, 2);
  EXPECT_THAT(made.shots, ElementsAre(2, 1, 1));
  EXPECT_TRUE(at::equal(made.latent.flatten(),
                        at::tensor({0, 1, 2, 3, 11, 12, 13, 14, 21, 22, 23, 24}, at::kDouble)));
  EXPECT_TRUE(at::equal(made.text.select(1, 0), at::tensor({0, 0, 0, 20}, at::kDouble)))
      << "an empty text is one token of zeros";
  EXPECT_EQ(made.more.at("fps").item<double>(), 24);
  EXPECT_EQ(joined_shape({1, 5, 1, 1}, {3, 2}), (std::vector<int64_t>{1, 12, 1, 1}));
}

TEST(JoinedShots, RefuseWhatIsNotOfAllShots) {
  EXPECT_THAT(test::refusal([] {
                joined_shots("sea@", {window("a", 0, 1), window("b", 0, 1, 30)}, 2);
              }),
              HasSubstr("'fps' of b is not one for all shots of sea@"));
  auto picture = window("a", 0, 1);
  picture.more["image"] = at::zeros({2, 3});
  EXPECT_THAT(test::refusal([&] {
                joined_shots("sea@", {picture, picture}, 2);
              }),
              HasSubstr("'image' of a is not one for all shots"));
  EXPECT_THAT(test::refusal([] {
                joined_shape({1, 3, 1, 1}, {2, 4});
              }),
              HasSubstr("windows of 3 latent frames are shorter than chunk = 4"));
  EXPECT_THAT(test::refusal([] { joined_shape({3, 4, 4}, {2, 4}); }), HasSubstr("makes codes"));
}

}  // namespace
}  // namespace kinora::core::shot_runs_test
