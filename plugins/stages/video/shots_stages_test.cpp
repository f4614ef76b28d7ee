// The stages that find shots, from the built plugin.
#include <set>

#include <gmock/gmock.h>

#include "media/scaler.hpp"
#include "stage_testing.hpp"

namespace kinora::video {
namespace {

using core::json;
using testing::Bytes;
using testing::runtime;
using testing::video_at;

json shots_of(const Sample& s) { return json::parse(s.need("shots.json")); }

TEST(Shots, AllInOneDecodeAreEachAloneAtAnyNumberOfThreads) {
  const std::vector<std::string> names{"content", "adaptive", "histogram", "hash", "threshold", "fixed"};
  const Sample one = core::OneStage(runtime(), "shots", {{"detectors", names}})(video_at("bbb_A.mp4"));
  const Sample three =
      core::OneStage(runtime(), "shots", {{"detectors", names}, {"threads", 3}})(video_at("bbb_A.mp4"));
  EXPECT_EQ(one.need("shots.json"), three.need("shots.json"));
  for (const auto& name : names) {
    const json alone =
        shots_of(core::OneStage(runtime(), "shots." + name, json::object())(video_at("bbb_A.mp4")));
    EXPECT_EQ(alone.at("detectors").at(name), shots_of(one).at("detectors").at(name)) << name;
    EXPECT_EQ(alone.at("cuts"), alone.at("detectors").at(name).at("cuts"));
  }
}

// Several detectors in one pass have their options under their names: each means what it means to the detector alone.
TEST(Shots, AnOptionOfADetectorMeansInASetWhatItMeansAlone) {
  struct Case {
    const char *detector, *beside, *option;
  };
  for (const auto& c :
       {Case{"content", R"({"threshold": 5.0})", R"({"threshold": 20.0})"},
        Case{"content", R"({"threshold": 5.0})", R"({"filter": "suppress"})"},
        Case{"adaptive", R"({"min_content": 1.0})", R"({"threshold": 1.2})"},
        Case{"adaptive", R"({"min_content": 1.0, "threshold": 1.2})", R"({"window": 5})"},
        Case{"adaptive", R"({"threshold": 1.2})", R"({"min_content": 1.0})"},
        Case{"histogram", "{}", R"({"threshold": 0.02})"}, Case{"histogram", "{}", R"({"bins": 8})"},
        Case{"hash", "{}", R"({"threshold": 0.1})"}, Case{"hash", "{}", R"({"size": 16})"},
        Case{"hash", "{}", R"({"lowpass": 4})"}, Case{"threshold", "{}", R"({"threshold": 146.5})"},
        Case{"threshold", R"({"threshold": 146.5})", R"({"fade_bias": 1.0})"},
        Case{"threshold", R"({"threshold": 146.5})", R"({"final_cut": true})"},
        Case{"threshold", R"({"threshold": 146.5})", R"({"fade": "ceiling"})"}}) {
    const std::string name = c.detector;
    const auto found = [&](const std::string& stage, const json& options) {
      json all{{"min_length", 6}};
      if (stage == "shots") all["detectors"] = {name};
      for (const auto& [key, value] : options.items())
        all[(stage == "shots" ? name + "_" : "") + key] = value;
      return shots_of(core::OneStage(runtime(), stage, all)(video_at("bbb_B.mp4"))).at("detectors").at(name);
    };
    json with = json::parse(c.beside);
    const json without = found("shots", with);
    with.update(json::parse(c.option));
    const json set = found("shots", with);
    EXPECT_EQ(set, found("shots." + name, with)) << name << c.option;
    EXPECT_NE(set, without) << name << c.option;
  }
}

TEST(Shots, SampledFramesAreThoseOfTheirTimes) {
  const Sample out =
      core::OneStage(runtime(), "shots",
                     {{"sample_every", 0.7}, {"sample_height", 60}, {"threads", 2}})(video_at("bbb_A.mp4"));
  const auto& t = *out.tensor("frames");
  const json at = json::parse(out.need("json")).at("frames_at");
  FileSource source(testing::data("bbb_A.mp4"));
  Decoder decoder(source, "bbb_A.mp4");
  ASSERT_EQ(t.shape[0], static_cast<int64_t>(at.size()));
  ASSERT_EQ(t.shape[1], 60);
  const auto row = static_cast<size_t>(t.shape[1] * t.shape[2] * 3);
  Scaler scaler({.width = static_cast<int>(t.shape[2]), .height = 60});
  Bytes expected(row);
  int64_t next = 0;
  double start = 0;
  while (const Frame* frame = decoder.next()) {
    if (frame->index == 0) start = frame->seconds;
    if (frame->seconds - start < 0.7 * static_cast<double>(next) - 1e-7) continue;
    ASSERT_LT(next, t.shape[0]);
    EXPECT_NEAR(at[static_cast<size_t>(next)].get<double>(), frame->seconds - start, 1e-6);
    scaler.bytes(*frame->picture, expected.data());
    EXPECT_EQ(Bytes(static_cast<uint8_t*>(t.data) + row * static_cast<size_t>(next),
                    static_cast<uint8_t*>(t.data) + row * static_cast<size_t>(next + 1)),
              expected)
        << next;
    ++next;
  }
  EXPECT_EQ(next, t.shape[0]);
}

TEST(Shots, EachOptionOfTheContentScoreChangesIt) {
  const json cases = json::parse(
      R"([{}, {"hue": 0}, {"saturation": 0}, {"value": 0}, {"edges": 1},
      {"edges": 1, "kernel_size": 9}, {"luma_only": true}])");
  for (const char* name : {"content", "adaptive"}) {
    std::set<std::string> scores;
    for (const auto& options : cases)
      scores.insert(
          shots_of(core::OneStage(runtime(), std::string("shots.") + name, options)(video_at("bbb_D.mp4")))
              .at("detectors")
              .at(name)
              .at("scores")
              .dump());
    EXPECT_EQ(scores.size(), cases.size()) << name;
  }
}

// The published pipeline of TransNet V2 reads these from ffmpeg.
Bytes thumbnails_by_ffmpeg(const std::filesystem::path& path) {
  return testing::output_of("ffmpeg -v error -i '" + path.string() +
                            "' -fps_mode passthrough -f rawvideo -pix_fmt rgb24 -s 48x27 -");
}

TEST(Shots, ThumbnailsAreThoseOfFfmpeg) {
  for (const char* name : {"bbb_A.mp4", "film_excerpt.webm", "city_cc0.mp4"}) {
    const Bytes expected = thumbnails_by_ffmpeg(testing::data(name));
    if (expected.empty()) GTEST_SKIP() << "no ffmpeg";
    const Sample out = core::OneStage(runtime(), "shots.fixed", {{"thumbnails", true}})(video_at(name));
    const auto& t = *out.tensor("thumbnails");
    const auto* found = static_cast<const uint8_t*>(t.data);
    ASSERT_EQ(static_cast<size_t>(t.shape[0]) * 27 * 48 * 3, expected.size()) << name;
    EXPECT_EQ(t.shape[0], shots_of(out).at("frames").get<int64_t>());
    size_t differ = 0;
    int worst = 0;
    for (size_t i = 0; i < expected.size(); ++i) {
      differ += found[i] != expected[i];
      worst = std::max<int>(worst, std::abs(found[i] - expected[i]));
    }
    EXPECT_EQ(differ, 0u) << name << ", at most " << worst;
    EXPECT_EQ(out.tensor("times_us")->shape[0], t.shape[0]);
  }
}

// A video of known pieces: the detector and the stage find the first frame of every shot, from one decode each.
TEST(Shots, TheNetworkFindsTheCutsOfAVideoThatWasPutTogether) {
  if (!testing::has_published_weights())
    GTEST_SKIP() << "no weights of TransNet V2; run packaging/dev.sh setup to create them";
  const Sample seen = core::OneStage(runtime(), "shots",
                                     {{"detectors", {"transnetv2", "fixed"}},
                                      {"decide", "transnetv2"},
                                      {"thumbnails", true},
                                      {"threads", 2}})(video_at("film_excerpt.webm"));
  const json found = shots_of(seen);
  EXPECT_EQ(found.at("cuts"), json::array({84}));
  EXPECT_NEAR(found.at("times_us")[0].get<double>(), 84 / 24.0 * 1e6, 1000);
  EXPECT_EQ(found.at("scores").size(), 168u);
  EXPECT_GT(found.at("scores")[83].get<double>(), 0.9);
  EXPECT_FALSE(found.contains("transitions"));
  const Sample out = core::OneStage(runtime(), "shots.transnetv2", json::object())(seen);
  EXPECT_EQ(shots_of(out), found);
  EXPECT_EQ(out.tensor("thumbnails"), nullptr);
}

TEST(Shots, TheNetworkSaysWhatMustStandBefore) {
  if (!testing::has_published_weights())
    GTEST_SKIP() << "no weights of TransNet V2; run packaging/dev.sh setup to create them";
  Sample video("film");
  video.set("shots.json", "{}");
  try {
    core::OneStage(runtime(), "shots.transnetv2", json::object())(video);
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_THAT(e.what(),
                ::testing::HasSubstr("no tensor 'thumbnails'; set thumbnails = true on a stage shots"));
  }
}

TEST(Shots, OptionsThatMakeNoSenseAreRefused) {
  const auto error_of = [](const char* id, const json& options) {
    try {
      core::OneStage(runtime(), id, options);
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("none");
  };
  using ::testing::AllOf;
  using ::testing::HasSubstr;
  EXPECT_THAT(error_of("shots", {{"detectors", {"magic"}}}), HasSubstr("there is no 'magic'"));
  EXPECT_THAT(error_of("shots", {{"detectors", {"hash", "hash"}}}), HasSubstr("twice"));
  EXPECT_THAT(error_of("shots", {{"decide", "hash"}}), HasSubstr("not among detectors"));
  EXPECT_THAT(
      error_of("shots", {{"detectors", {"transnetv2"}}, {"transnetv2_weights", "/no/such.safetensors"}}),
      AllOf(HasSubstr("/no/such.safetensors"), HasSubstr("docs/operate.md says how to get them")));
  EXPECT_THAT(error_of("shots.content", {{"hue", 0}, {"saturation", 0}, {"value", 0}}),
              HasSubstr("all weights"));
  EXPECT_THAT(error_of("shots.content", {{"kernel_size", 4}}), HasSubstr("odd number"));
  EXPECT_THAT(error_of("shots.hash", {{"size", 5}, {"lowpass", 3}}), HasSubstr("is odd"));
}

}  // namespace
}  // namespace kinora::video
