// stage/video.clips of the built plugin emits what stage/shots and then stage/clip.transcode emit.
#include <algorithm>
#include <cstdlib>
#include <set>

#include <gmock/gmock.h>

#include "stage_testing.hpp"

namespace kinora::video {
namespace {

using core::json;
using testing::Applied;
using testing::applied;
using testing::Bytes;
using ::testing::HasSubstr;

constexpr int kVideoWidth = 96, kVideoHeight = 64;

// Scenes of these lengths at 24 frames per second, each with its own colours; a negative length is that many
// dark frames.
struct Made {
  std::vector<int> scenes;
  bool sound = false;
  std::vector<int64_t> times{};  // of every frame in ms; none: 24 per second
  int width = kVideoWidth, height = kVideoHeight;
};

Bytes make(const Made& how) {
  EncoderOptions options = testing::small_video(how.width, how.height);
  options.preset = "fast";  // with B frames
  if (how.sound) options.audio = {12000, 1, 0};
  if (!how.times.empty()) options.time_base = {1, 1000};
  Encoder encoder(options);
  int64_t at = 0;
  for (size_t scene = 0; scene < how.scenes.size(); ++scene)
    for (int i = 0; i < std::abs(how.scenes[scene]); ++i, ++at) {
      Bytes rgb = testing::picture(how.width, how.height, at);
      for (size_t p = 0; p < rgb.size(); p += 3) {
        std::rotate(&rgb[p], &rgb[p + scene % 3], &rgb[p + 3]);
        for (size_t c = 0; c < 3; ++c)
          rgb[p + c] =
              how.scenes[scene] < 0 ? uint8_t{0} : static_cast<uint8_t>(rgb[p + c] + 70 * (scene % 2));
      }
      if (how.times.empty()) {
        encoder.write_rgb(rgb.data());
      } else {
        auto frame = ff::new_frame();
        frame->width = how.width, frame->height = how.height, frame->format = AV_PIX_FMT_RGB24;
        EXPECT_GE(av_frame_get_buffer(frame.get(), 0), 0);
        for (int y = 0; y < how.height; ++y)
          std::copy_n(&rgb[static_cast<size_t>(y * how.width * 3)], how.width * 3,
                      frame->data[0] + ptrdiff_t{frame->linesize[0]} * y);
        encoder.write(*frame, how.times[static_cast<size_t>(at)]);
      }
      if (!how.sound) continue;
      std::vector<float> samples(500);
      for (size_t n = 0; n < samples.size(); ++n)
        samples[n] = static_cast<float>(0.5 * std::sin(0.02 * static_cast<double>(n) * (1 + at % 5)));
      const float* plane = samples.data();
      encoder.write_audio(&plane, 500);
    }
  return encoder.finish();
}

Sample video_of(const Bytes& bytes, const json& facts = json::object()) {
  Sample out("film");
  out.set("mp4", Bytes(bytes));
  out.set("json", facts.dump());
  return out;
}

bool looks_for_shots(const std::string& option) {
  static const std::set<std::string> others{"detectors", "decide", "tolerance", "shot_min_length",
                                            "downscale"};
  const auto begins = [&](const char* prefix) { return option.rfind(prefix, 0) == 0; };
  return others.count(option) || begins("content_") || begins("adaptive_") || begins("histogram_") ||
         begins("hash_") || begins("threshold_") || begins("transnetv2_") || begins("fixed_");
}

// Applies the two stages; `video` receives the sample with the fields they set.
Applied one_after_the_other(const json& options, Sample& video) {
  json shots = json::object(), clips = json::object();
  for (const auto& [name, value] : options.items())
    (looks_for_shots(name) ? shots : clips)[name == "shot_min_length" ? "min_length" : name] = value;
  if (options.contains("threads")) shots["threads"] = options["threads"];
  Applied first = applied("shots", shots, video);
  if (!first.error.empty()) return first;
  return applied("clip.transcode", clips, video);
}

std::string described(const Sample& s) {
  std::string out(s.key());
  for (const auto& field : s.fields())
    out += "\n " + std::string(field.name) + ": " +
           (field.name == "json"
                ? std::string(s.need("json"))
                : std::to_string(field.bytes.size()) + " bytes, " +
                      std::to_string(std::hash<std::string_view>{}(
                          {reinterpret_cast<const char*>(field.bytes.data()), field.bytes.size()})));
  if (const auto* t = s.tensor("frames")) {
    const auto size = static_cast<size_t>(t->shape[0] * t->shape[1] * t->shape[2] * t->shape[3]);
    out += "\n frames: " + std::to_string(t->shape[0]) + " " +
           std::to_string(std::hash<std::string_view>{}({static_cast<const char*>(t->data), size}));
  }
  return out;
}

std::vector<std::string> emitted(const Applied& a) {
  std::vector<std::string> out;
  for (const auto& s : a.results.emitted) out.push_back(described(s));
  return out;
}
std::vector<std::string> dropped(const Applied& a) {
  std::vector<std::string> out;
  for (const auto& d : a.results.dropped) out.push_back(d.key + " " + d.rule + " " + std::to_string(d.score));
  return out;
}
std::vector<std::string> failed(const Applied& a) {
  std::vector<std::string> out;
  for (const auto& f : a.results.failed) out.push_back(f.key + " " + f.reason);
  return out;
}

// Returns the number of clips.
size_t expect_equal(const json& options, const Sample& given) {
  SCOPED_TRACE(options.dump());
  Sample two = given.clone("film"), one = given.clone("film");
  const Applied expected = one_after_the_other(options, two), found = applied("video.clips", options, one);
  EXPECT_EQ(found.error, expected.error);
  EXPECT_EQ(emitted(found), emitted(expected));
  EXPECT_EQ(dropped(found), dropped(expected));
  EXPECT_EQ(failed(found), failed(expected));
  EXPECT_EQ(one.text("shots.json").value_or("none"), two.text("shots.json").value_or("none"));
  return found.results.emitted.size();
}

// Options for videos of a few seconds, of which the stages' defaults would leave nothing.
json with(const json& given, const json& more = json::object()) {
  json out{{"preset", "ultrafast"},
           {"min_length", 0.5},
           {"min_frames", 1},
           {"edge_crop", 0.0},
           {"long_shots", "equal"}};
  out.update(given);
  out.update(more);
  return out;
}

const Bytes& scenes() {
  static const Bytes made = make({.scenes = {30, 25, 9, 47, -20, 30, 18, 3, 3, 28}, .sound = true});
  return made;
}

// A picture that stands for two minutes makes the average rate useless.
TEST(VideoClips, OnePictureThatStandsForMinutesTakesNoCutAway) {
  for (const bool jitters :
       {false, true}) {  // without a usual distance between frames FFmpeg knows the average only
    Made how{{40, 33, 51, 30}};
    int64_t at = 0;
    for (int i = 0; i < 154; ++i, at += 40 + (jitters ? i * 7 % 5 : 0)) {
      if (i == 41) at += 120'000;
      how.times.push_back(at);
    }
    Sample video = video_of(make(how));
    const json options{{"min_length", 0.5},        {"min_frames", 1},     {"edge_crop", 0.0},
                       {"detectors", {"content"}}, {"max_length", 200.0}, {"preset", "ultrafast"}};
    const Applied once = applied("video.clips", options, video);
    std::vector<int64_t> firsts;
    for (const auto& clip : once.results.emitted) firsts.push_back(testing::facts_in(clip).at("first_frame"));
    EXPECT_EQ(firsts, (std::vector<int64_t>{0, 40, 73, 124})) << jitters;
    EXPECT_EQ(emitted(one_after_the_other(options, video)), emitted(once));
  }
}

TEST(VideoClips, EqualsTheTwoStagesWithEveryDetectorAndDecision) {
  const Sample video = video_of(scenes());
  for (const char* name : {"content", "adaptive", "histogram", "hash", "threshold", "fixed"})
    EXPECT_GT(expect_equal(with({{"detectors", {name}}, {"fixed_stride", 1.7}}), video), 1u);
  for (const char* decide : {"any", "all", "threshold", "adaptive"})
    for (const int tolerance : {0, 3, 20})
      expect_equal(with({{"detectors", {"adaptive", "content", "histogram", "threshold"}},
                         {"decide", decide},
                         {"tolerance", tolerance}}),
                   video);
  expect_equal(with({{"detectors", {"content"}}, {"content_filter", "suppress"}, {"shot_min_length", 0}}),
               video);
  expect_equal(with({{"detectors", {"content"}}, {"shot_min_length", 50}}), video);
  expect_equal(
      with({{"detectors", {"threshold"}}, {"threshold_fade", "ceiling"}, {"threshold_threshold", 90}}),
      video);
}

TEST(VideoClips, EqualsTheTwoStagesWithANetwork) {
  if (!testing::has_published_weights())
    GTEST_SKIP() << "no weights of TransNet V2; run packaging/dev.sh setup to create them";
  const Sample video = testing::video_at("film_excerpt.webm");
  EXPECT_EQ(expect_equal(with({{"detectors", {"transnetv2", "content"}}, {"tolerance", 2}}), video), 2u);
}

// Each option of a set of detectors equals the detector's own option of that name and has an effect: another
// cut or score.
TEST(VideoClips, OptionsOfDetectorsAreThoseOfTheirOwnStages) {
  static const Bytes dark = make({.scenes = {30, 25, 9, 47, -20, 30, 18, 3, 3, 28, -22}});
  const json cases = json::parse(R"([
    ["content", {"threshold": 250}], ["content", {"threshold": 5, "filter": "suppress"}],
    ["adaptive", {"threshold": 255}], ["adaptive", {"window": 5}], ["adaptive", {"min_content": 255}],
    ["histogram", {"threshold": 0.003}], ["histogram", {"bins": 16}],
    ["hash", {"threshold": 1}], ["hash", {"size": 16}], ["hash", {"lowpass": 4}],
    ["threshold", {"threshold": 90}], ["threshold", {"fade_bias": 1}], ["threshold", {"final_cut": true}],
    ["threshold", {"threshold": 90, "fade": "ceiling"}],
    ["fixed", {"stride": 1.7}]])");
  const auto found = [&](const std::string& stage, const std::string& detector, const json& options) {
    Sample video = video_of(dark);
    EXPECT_EQ(applied(stage.c_str(), options, video).error, "");
    return json::parse(video.need("shots.json")).at("detectors").at(detector);
  };
  json all{{"detectors", {"content", "adaptive", "histogram", "hash", "threshold", "fixed"}}};
  for (const auto& one : cases) {
    const std::string name = one[0];
    SCOPED_TRACE(one.dump());
    json of_set{{"detectors", {name}}};
    for (const auto& [option, value] : one[1].items())
      all[name + "_" + option] = of_set[name + "_" + option] = value;
    const json own = found("shots." + name, name, one[1]);
    EXPECT_NE(own, found("shots." + name, name, json::object()));
    EXPECT_EQ(own, found("shots", name, of_set));
  }
  expect_equal(with(all), video_of(dark));
}

TEST(VideoClips, EqualsTheTwoStagesWithEveryRuleForClips) {
  const Sample video = video_of(scenes(), {{"crop", {{"x", 8}, {"y", 4}, {"width", 80}, {"height", 56}}},
                                           {"caption", {{"by", "user"}}}});
  const json cases = json::parse(R"([
    {"min_length": 0}, {"min_length": 1.5}, {"min_frames": 45}, {"max_length": 0.7},
    {"max_length": 1.0, "min_length": 0.45},
    {"max_length": 0.7, "long_shots": "stride"},
    {"max_length": 0.7, "long_shots": "stride", "stride": 0.3, "min_length": 0.2},
    {"max_length": 0.5, "long_shots": "stride", "stride": 0.9}, {"max_length": 0.8, "long_shots": "truncate"},
    {"edge_crop": 0.2}, {"edge_crop": 0.5, "min_length": 0},
    {"edge_crop": 0.1, "max_length": 0.6, "long_shots": "stride"},
    {"edge_crop": 0.1, "max_length": 0.9, "long_shots": "stride", "stride": 0.4},
    {"edge_crop": 0.3, "long_shots": "truncate", "max_length": 0.5},
    {"bins": "drop"}, {"crop": true}, {"max_height": 32}, {"audio": false}, {"sample_fps": 3.0, "sample_height": 32},
    {"sample_fps": 24.0, "memory": 1048576}, {"threads": 2}, {"copy": "auto"}, {"copy": "auto", "crop": true}])");
  for (size_t i = 0; i < cases.size(); ++i)
    expect_equal(with({{"detectors", {"content"}}, {"parallel", 1 + i % 4}}, cases[i]), video);
  for (const int parallel : {1, 2, 3, 4})
    expect_equal(with({{"detectors", {"content"}}, {"parallel", parallel}}, cases[3]), video);
}

TEST(VideoClips, LeavesOutWhatHasEnded) {
  Sample video = video_of(scenes());
  video.set("ended.json", json{"film-0000", "film-0002", "film-0005"}.dump());
  for (const char* rule : {"equal", "stride"})
    expect_equal(with({{"detectors", {"content"}}, {"max_length", 0.9}, {"long_shots", rule}}), video);
  video.set("ended.json", "7");
  EXPECT_THAT(applied("video.clips", json::object(), video).error,
              HasSubstr("ended.json is not an array of keys"));
}

TEST(VideoClips, EqualsTheTwoStagesOnOtherVideos) {
  EXPECT_EQ(expect_equal(with({{"min_length", 0}}), video_of(make({.scenes = {70}}))), 1u);
  EXPECT_EQ(expect_equal(with({{"min_length", 0}}), video_of(make({.scenes = {1}}))), 1u);
  EXPECT_GT(expect_equal(with({{"detectors", {"fixed"}}, {"fixed_stride", 0.05}, {"min_length", 0}}),
                         video_of(scenes())),
            100u);
  std::vector<int64_t> times;
  for (int64_t i = 0, t = 0; i < 150; ++i, t += i < 60 ? 41 : i % 7 == 0 ? 310 : 12) times.push_back(t);
  const Sample variable = video_of(make({.scenes = {40, 50, 25, 35}, .times = times}));
  for (const char* rule : {"equal", "stride", "truncate"})
    expect_equal(with({{"detectors", {"content", "threshold"}},
                       {"max_length", 0.9},
                       {"long_shots", rule},
                       {"min_length", 0.2}}),
                 variable);
  for (const char* name : {"film_excerpt.webm", "bbb_A.mp4", "calais_1906.ogv"}) {
    expect_equal(with({{"max_height", 64}, {"max_length", 2.0}, {"long_shots", "stride"}}),
                 testing::video_at(name));
  }
}

TEST(VideoClips, EqualsTheTwoStagesOnDamagedVideos) {
  for (const size_t part : {0, 1, 3, 6}) {
    Bytes cut = scenes();
    cut.resize(cut.size() * part / 8);
    expect_equal(with({{"detectors", {"content"}}}), video_of(cut));
  }
  Bytes webm = testing::load("film_excerpt.webm");
  webm.resize(webm.size() / 2);
  expect_equal(with({{"detectors", {"content"}}, {"max_height", 64}, {"max_length", 0.8}}), video_of(webm));
  for (uint32_t seed = 1; seed <= 8; ++seed) {
    Bytes bad = scenes();
    uint32_t random = seed * 2654435761U;
    for (int i = 0; i < 6; ++i) {
      random = random * 1664525U + 1013904223U;
      bad[bad.size() / 3 + random % (bad.size() / 2)] ^= static_cast<uint8_t>(1 + random % 255);
    }
    expect_equal(with({{"detectors", {"content"}}, {"max_length", seed % 2 ? 60.0 : 0.8}}), video_of(bad));
  }
}

TEST(VideoClips, EqualsTheTwoStagesWhereMemoryIsShort) {
  // 12 frames of this video take 1 MiB.
  const Sample video =
      video_of(make({.scenes = {45, 25, -30, 40, 30}, .sound = true, .width = 320, .height = 180}));
  for (const char* decide : {"content", "any"})
    for (const char* rule : {"equal", "stride"})
      for (const int parallel : {1, 3})
        expect_equal(with({{"detectors", {"content", "threshold"}},
                           {"decide", decide},
                           {"tolerance", 2},
                           {"parallel", parallel},
                           {"long_shots", rule}},
                          {{"memory", 1048576},
                           {"min_length", 1.2},
                           {"max_length", 1.6},
                           {"stride", 0.6},
                           {"edge_crop", 0.1}}),
                     video);
}

TEST(VideoClips, TimesOfAVariableRateAreThoseOfThePictures) {
  std::vector<int64_t> times;
  for (int64_t i = 0, t = 0; i < 90; ++i, t += i < 45 ? 20 : 200) times.push_back(t);
  const Applied out = applied("video.clips", with({{"detectors", {"content"}}}),
                              video_of(make({.scenes = {50, 40}, .times = times})));
  ASSERT_EQ(out.results.emitted.size(), 2u);
  const json facts = testing::facts_in(out.results.emitted[1]);
  EXPECT_EQ(facts.at("first_frame"), 50);
  EXPECT_NEAR(facts.at("start_s").get<double>(), static_cast<double>(times[50]) / 1000, 1e-6);
  const json before = testing::facts_in(out.results.emitted[0]);
  EXPECT_EQ(before.at("start_s"), 0.0);
  EXPECT_NEAR(before.at("end_s").get<double>(), static_cast<double>(times[50]) / 1000, 1e-6);
}

TEST(VideoClips, OptionsThatMakeNoSenseAreRefused) {
  EXPECT_THROW(core::OneStage(testing::runtime(), "video.clips", {{"decide", "hash"}}), Error);
}

}  // namespace
}  // namespace kinora::video
