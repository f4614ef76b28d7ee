// clip.transcode, clip.preview and filter.motion of the built plugin.
#include <set>

#include <gmock/gmock.h>

#include "media/scaler.hpp"
#include "stage_testing.hpp"

namespace kinora::video {
namespace {

using core::json;
using testing::Applied;
using testing::applied;
using testing::Bytes;
using ::testing::ElementsAre;
using testing::facts_in;
using testing::ffmpeg_has_nvenc;
using ::testing::HasSubstr;
using testing::runtime;

constexpr int kClipWidth = 96, kClipHeight = 64;

// 240 frames at 24 per second, with a key frame every 24.
Sample video() {
  EncoderOptions options = testing::small_video(kClipWidth, kClipHeight);
  options.key_interval = 24;
  Sample out("film");
  out.set("mp4", testing::make_video(options, 240));
  return out;
}

void set_shots(Sample& video, const std::vector<int64_t>& cuts) {
  video.set("shots.json", json{{"fps", 24.0}, {"frames", 240}, {"cuts", cuts}}.dump());
}

// Every shot becomes a clip from its first frame to its last, unless `given` changes options.
Applied cut(const json& given, const Sample& video) {
  json options{{"min_length", 0.5}, {"min_frames", 1}, {"edge_crop", 0.0}};
  options.update(given);
  return applied("clip.transcode", options, video);
}

std::vector<std::string> keys_of(const std::vector<Sample>& samples) {
  std::vector<std::string> keys;
  for (const auto& s : samples) keys.emplace_back(s.key());
  return keys;
}

TEST(ClipTranscode, ShortClipsAreFilteredBySecondsAndByFrames) {
  Sample in = video();
  set_shots(in, {12, 60, 120});
  const Applied out = cut({{"min_length", 2.0}, {"min_frames", 50}, {"preset", "ultrafast"}}, in);
  EXPECT_EQ(out.error, "");
  EXPECT_THAT(keys_of(out.results.emitted), ElementsAre("film-0002", "film-0003"));
  ASSERT_EQ(out.results.dropped.size(), 2u);
  EXPECT_EQ(out.results.dropped[1].key, "film-0001");  // 48 frames: two seconds, but two frames too few
  EXPECT_EQ(out.results.dropped[1].rule, "clip.too-few-frames");
  EXPECT_DOUBLE_EQ(out.results.dropped[1].score, 48);
  EXPECT_EQ(out.results.dropped[0].rule, "clip.too-short");
  EXPECT_EQ(facts_in(out.results.dropped[0].sample).at("bounds"),
            json::parse(R"({"clip.too-short": {"at_least": 2.0}})"));
  EXPECT_EQ(facts_in(out.results.dropped[1].sample).at("bounds"),
            json::parse(R"({"clip.too-few-frames": {"at_least": 50.0}})"));
  const Applied edges = cut({{"min_length", 0.0}, {"edge_crop", 1.0}, {"preset", "ultrafast"}}, in);
  ASSERT_EQ(edges.results.dropped.size(), 2u);
  EXPECT_EQ(facts_in(edges.results.dropped[1].sample).at("bounds"),
            json::parse(R"({"clip.too-short": {"at_least": 2.0}})"))
      << "a shot of two seconds that consists of its edges";
}

TEST(ClipTranscode, AClipOfOneFrameIsSaid) {
  Sample in = video();
  set_shots(in, {1});
  ::testing::internal::CaptureStderr();
  const Applied out = cut({{"min_length", 0.0}, {"preset", "ultrafast"}}, in);
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(keys_of(out.results.emitted), ElementsAre("film-0000", "film-0001"));
  EXPECT_THAT(said, HasSubstr("film-0000 is a clip of one frame"));
  EXPECT_THAT(said, HasSubstr("min_frames = 2"));
  EXPECT_THAT(said, ::testing::Not(HasSubstr("film-0001 is")));
}

TEST(ClipTranscode, HalfASecondGoesOffBothEndsOfAShot) {
  Sample in = video();
  set_shots(in, {70, 140});
  const Applied out = applied("clip.transcode", {{"preset", "ultrafast"}}, in);
  ASSERT_EQ(out.results.emitted.size(), 1u);
  EXPECT_EQ(facts_in(out.results.emitted[0]).at("first_frame"), 152);
  EXPECT_EQ(facts_in(out.results.emitted[0]).at("end_frame"), 228);
  EXPECT_EQ(out.results.dropped.size(), 2u);  // 46 of 70 frames remain
}

TEST(ClipTranscode, WhatAnEarlierRunHasEndedIsLeftOut) {
  Sample in = video();
  set_shots(in, {6, 60, 120});
  const Applied whole = cut({{"preset", "ultrafast"}}, in);
  in.set("ended.json", json{"film-0000", "film-0002"}.dump());
  const Applied rest = cut({{"preset", "ultrafast"}}, in);
  EXPECT_TRUE(rest.results.dropped.empty());
  EXPECT_THAT(keys_of(rest.results.emitted), ElementsAre("film-0001", "film-0003"));
  EXPECT_EQ(rest.results.emitted.at(0).need("mp4"), whole.results.emitted.at(0).need("mp4"));
  EXPECT_EQ(rest.results.emitted.at(1).need("mp4"), whole.results.emitted.at(2).need("mp4"));
  in.set("ended.json", R"({"film-0000": 1})");
  EXPECT_THAT(cut(json::object(), in).error, HasSubstr("ended.json is not an array of keys"));
}

TEST(ClipTranscode, WhatIsOfTheWholeVideoIsNotOfItsClips) {
  Sample in = video();
  const json of_video{{"scores", {{"filter.letterbox", 0.1}}},
                      {"usage", {{"filter.ocr", {{"requests", 3}}}}},
                      {"ocr", {{"share", 0.5}}},
                      {"errors", {{"filter.ocr", "no answer"}}},
                      {"embeddings", {{"classic", {{"size", 488}}}}},
                      {"caption", {{"by", "caption.describe"}}}};
  json facts = of_video;
  facts["user"] = {{"licence", "CC0"}};
  in.set("json", facts.dump());
  const json clip = facts_in(applied("clip.transcode", {{"preset", "ultrafast"}}, in).results.emitted.at(0));
  EXPECT_EQ(clip.at("film_facts"), of_video);
  EXPECT_EQ(clip.at("user"), (json{{"licence", "CC0"}}));
  for (const auto& [name, value] : of_video.items()) EXPECT_FALSE(clip.contains(name)) << name;
  facts["caption"] = {{"by", "user"}};
  in.set("json", facts.dump());
  in.set("txt", "Mine.");
  const Sample own = applied("clip.transcode", {{"preset", "ultrafast"}}, in).results.emitted.at(0);
  EXPECT_EQ(facts_in(own).at("caption"), facts["caption"]);
  EXPECT_EQ(own.text("txt"), "Mine.");
}

TEST(ClipTranscode, BinsAreRecordedAndCanFilter) {
  Sample in = video();
  set_shots(in, {60});
  const Applied all = cut({{"preset", "ultrafast"}}, in);
  ASSERT_EQ(all.results.emitted.size(), 2u);
  EXPECT_EQ(facts_in(all.results.emitted[0]).at("bin"),
            (json{{"resolution", "lt_720"}, {"aspect", "4_3"}, {"duration", nullptr}}));
  EXPECT_EQ(facts_in(all.results.emitted[1]).at("bin").at("duration"), "5_10");
  const Applied some = cut({{"preset", "ultrafast"}, {"bins", "drop"}}, in);
  EXPECT_THAT(keys_of(some.results.emitted), ElementsAre("film-0001"));
  ASSERT_EQ(some.results.dropped.size(), 1u);
  EXPECT_EQ(some.results.dropped[0].rule, "clip.no-bin");
  EXPECT_EQ(facts_in(some.results.dropped[0].sample).at("bounds"),
            json::parse(R"({"clip.no-bin": {"at_least": 5.0}})"));
}

TEST(ClipTranscode, CopiesWhatNeedsNoEncoder) {
  Sample in = video();
  set_shots(in, {72});
  const Applied out = cut({{"copy", "auto"}, {"preset", "ultrafast"}}, in);
  ASSERT_EQ(out.results.emitted.size(), 2u);
  for (const Sample& clip : out.results.emitted)
    EXPECT_EQ(facts_in(clip).at("copied"), facts_in(clip).at("frames"));
  in.set("shots.json", json{{"fps", 24.0}, {"frames", 240}, {"cuts", {72}}, {"damaged", "something"}}.dump());
  const Applied unsure = cut({{"copy", "auto"}, {"preset", "ultrafast"}}, in);
  EXPECT_EQ(unsure.error, "something");
  for (const Sample& clip : unsure.results.emitted)
    EXPECT_EQ(facts_in(clip).at("copied"), 0) << "packets of a damaged video are not copied without decoding";
}

TEST(ClipTranscode, FramesTravelBesideTheClip) {
  Sample in = video();
  set_shots(in, {96});
  const Applied out = cut({{"preset", "ultrafast"}, {"sample_fps", 2.0}, {"sample_height", 32}}, in);
  ASSERT_EQ(out.results.emitted.size(), 2u);
  const auto* frames = out.results.emitted[1].tensor("frames");
  ASSERT_NE(frames, nullptr);
  EXPECT_THAT(std::vector<int64_t>(frames->shape, frames->shape + 4), ElementsAre(12, 32, 48, 3));
  const json at = facts_in(out.results.emitted[1]).at("frames_at");
  ASSERT_EQ(at.size(), 12u);
  EXPECT_NEAR(at[3].get<double>(), 1.5, 1e-6);
  EXPECT_EQ(out.results.emitted[0].tensor("frames")->shape[0], 8);
}

TEST(ClipTranscode, CropsToTheFact) {
  Sample in = video();
  set_shots(in, {});
  in.set("json", json{{"crop", {{"x", 0}, {"y", 8}, {"width", 96}, {"height", 48}}}}.dump());
  const json uncropped = facts_in(cut({{"preset", "ultrafast"}}, in).results.emitted.at(0));
  EXPECT_EQ(uncropped.at("height"), kClipHeight);
  EXPECT_TRUE(uncropped.contains("crop"));
  const json facts = facts_in(cut({{"preset", "ultrafast"}, {"crop", true}}, in).results.emitted.at(0));
  EXPECT_EQ(facts.at("height"), 48);
  EXPECT_FALSE(facts.contains("crop")) << "the crop has been applied";
  EXPECT_EQ(facts.at("cropped").at("y"), 8);
  in.set("json", R"({"crop": [1, 2]})");
  EXPECT_THAT(cut({{"crop", true}}, in).error, HasSubstr("the fact crop must be"));
}

TEST(ClipTranscode, SaysWhatIsWrongWithShots) {
  Sample in = video();
  in.set("shots.json", R"({"fps": 24})");
  EXPECT_THAT(cut(json::object(), in).error, HasSubstr("shots.json lacks fps, frames or cuts"));
}

kinora_resources declared(const char* id, const json& given) {
  const core::Component component = core::or_throw(runtime().registry().open("stage", id));
  const auto options = core::or_throw(core::Options::make(*component.spec, given));
  const auto& stage = component.table<kinora_stage>();
  const std::unique_ptr<void, void (*)(void*)> self(stage.create(host(), options.abi()), stage.destroy);
  kinora_resources out{};
  out.struct_size = sizeof out;
  check(stage.resources(self.get(), &out));
  return out;
}

TEST(ClipTranscode, WhoEncodesOnTheCardNeedsItsEncoderAndFewerCores) {
  for (const char* id : {"clip.transcode", "video.clips"}) {
    const kinora_resources x264 = declared(id, {{"parallel", 8}, {"threads", 1}});
    EXPECT_EQ(x264.nvenc, 0u);
    EXPECT_EQ(x264.cores, 4.0);
    const kinora_resources nvenc = declared(id, {{"parallel", 8}, {"threads", 1}, {"encoder", "h264_nvenc"}});
    EXPECT_EQ(nvenc.nvenc, 1u);
    EXPECT_EQ(nvenc.cores, 1.0);
    EXPECT_EQ(nvenc.nvdec, 0u) << "videos are decoded on the CPU";
    EXPECT_EQ(nvenc.isolated, x264.isolated);
    EXPECT_EQ(nvenc.memory, x264.memory);
    const kinora_resources either = declared(id, {{"parallel", 8}, {"encoder", "auto"}});
    EXPECT_EQ(either.nvenc, ffmpeg_has_nvenc() ? 1u : 0u);
    EXPECT_EQ(either.cores, ffmpeg_has_nvenc() ? 1.0 : 4.0);
  }
}

TEST(ClipPreview, OneFrameASecondInBothFormats) {
  const core::OneStage webp(runtime(), "clip.preview", {{"height", 32}, {"quality", 90}});
  const core::OneStage mp4(runtime(), "clip.preview", {{"height", 32}, {"format", "mp4"}, {"crf", 8}});
  const Sample in = video(), with_video = mp4(in), with_animation = webp(in);
  const auto preview = *with_video.bytes("preview.mp4");
  const testing::Decoded found = testing::decode(Bytes(preview.begin(), preview.end()));
  ASSERT_EQ(found.luma.size(), 10u);
  EXPECT_EQ(found.probe.video.width, 48);
  EXPECT_EQ(found.probe.video.height, 32);
  EXPECT_NEAR(found.probe.duration_s, 10, 1e-3);
  const std::string_view animation = with_animation.need("preview.webp");
  EXPECT_EQ(animation.substr(0, 4), "RIFF");
  size_t frames = 0;
  for (size_t at = animation.find("ANMF"); at != std::string_view::npos; at = animation.find("ANMF", at + 4))
    ++frames;
  EXPECT_GE(frames, 9u);  // libwebp merges similar neighbouring frames
  EXPECT_LE(frames, 10u);
}

// Twenty frames at two per second, with video bytes that cannot be decoded.
Sample beside_nonsense(double every, int64_t count) {
  Sample out("clip");
  Bytes pixels;
  json at = json::array();
  for (int64_t i = 0; i < count; ++i) {
    const Bytes one = testing::picture(kClipWidth, kClipHeight, 6 * i);
    pixels.insert(pixels.end(), one.begin(), one.end());
    at.push_back(every * static_cast<double>(i));
  }
  out.set_tensor("frames", std::move(pixels), {count, kClipHeight, kClipWidth, 3}, KINORA_DL_UINT, 8);
  out.set("json", json{{"frames_at", at}, {"fps", 24.0}, {"duration_s", 10.0}}.dump());
  out.set("mp4", Bytes{1, 2, 3});
  return out;
}

TEST(ClipPreview, IsMadeOfFramesThatAreThere) {
  for (const int64_t high : {kClipHeight, kClipHeight / 2}) {
    const json options{{"height", high}, {"format", "mp4"}, {"crf", 4}};
    const Applied made = applied("clip.preview", options, beside_nonsense(0.5, 20));
    ASSERT_EQ(made.error, "");
    const auto preview = *made.results.emitted.at(0).bytes("preview.mp4");
    const testing::Decoded found = testing::decode(Bytes(preview.begin(), preview.end()));
    ASSERT_EQ(found.luma.size(), 10u);
    EXPECT_EQ(found.probe.video.height, high);
    EXPECT_EQ(found.probe.video.width, high * kClipWidth / kClipHeight);
    for (size_t i = 0; high == kClipHeight && i < 10; ++i) {
      EncoderOptions lossless = testing::small_video(kClipWidth, kClipHeight);
      lossless.crf = 4;
      Encoder encoder(lossless);
      encoder.write_rgb(testing::picture(kClipWidth, kClipHeight, 12 * static_cast<int64_t>(i)).data());
      EXPECT_GT(testing::psnr(found.luma[i], testing::decode(encoder.finish()).luma.at(0)), 40) << i;
    }
  }
}

TEST(ClipPreview, DecodesWhereTheFramesWillNotDo) {
  const json options{{"height", kClipHeight}, {"format", "mp4"}};
  EXPECT_NE(applied("clip.preview", options, beside_nonsense(1.5, 7)).error, "") << "too few";
  EXPECT_NE(applied("clip.preview", options, beside_nonsense(0.5, 10)).error, "")
      << "the frames end too early";
  EXPECT_NE(applied("clip.preview", {{"height", kClipHeight + 2}}, beside_nonsense(0.5, 20)).error, "")
      << "too low";
  Sample whole = video();
  const Applied plain = applied("clip.preview", options, whole);
  const Sample sparse = beside_nonsense(1.5, 7);
  whole.set("json", sparse.need("json"));
  const auto* t = sparse.tensor("frames");
  const auto* bytes = static_cast<const uint8_t*>(t->data);
  whole.set_tensor("frames", {bytes, bytes + 7 * kClipWidth * kClipHeight * 3},
                   {7, kClipHeight, kClipWidth, 3}, KINORA_DL_UINT, 8);
  const Applied beside = applied("clip.preview", options, whole);
  EXPECT_EQ(beside.results.emitted.at(0).need("preview.mp4"),
            plain.results.emitted.at(0).need("preview.mp4"));
  Sample other = video();
  other.set_tensor("frames", Bytes(4), {1}, KINORA_DL_UINT, 32);
  const Applied beside_others = applied("clip.preview", options, other);
  EXPECT_EQ(beside_others.results.emitted.at(0).need("preview.mp4"),
            plain.results.emitted.at(0).need("preview.mp4"));
}

TEST(FilterMotion, DropsTheStillAndKeepsTheMoving) {
  EncoderOptions options = testing::small_video(320, 256);
  Encoder encoder(options);
  for (int i = 0; i < 60; ++i) encoder.write_rgb(testing::picture(320, 256, 0).data());
  Sample still("still");
  still.set("mp4", encoder.finish());
  const Applied dropped = applied("filter.motion", json::object(), still);
  ASSERT_EQ(dropped.results.dropped.size(), 1u);
  EXPECT_EQ(dropped.results.dropped[0].rule, "filter.motion");
  EXPECT_LT(dropped.results.dropped[0].score, 1e-6);
  EXPECT_EQ(facts_in(dropped.results.dropped[0].sample).at("bounds"),
            json::parse(R"({"filter.motion": {"at_least": 0.00098}})"));
  const Applied scored = applied("filter.motion", {{"mode", "score"}}, still);
  ASSERT_EQ(scored.results.emitted.size(), 1u);
  EXPECT_EQ(facts_in(scored.results.emitted[0]).at("scores").at("filter.motion"),
            dropped.results.dropped[0].score);
  Sample moving("moving");
  moving.set("mp4", testing::load("bbb_A.mp4"));
  EXPECT_EQ(applied("filter.motion", {{"patch_min", 0.0}}, moving).results.emitted.size(), 1u);
  const Applied too_still = applied("filter.motion", {{"patch_min", 0.0}, {"global_mean", 1.0}}, moving);
  ASSERT_EQ(too_still.results.dropped.size(), 1u);
  EXPECT_EQ(too_still.results.dropped[0].rule, "filter.motion");
}

TEST(FilterMotion, EachOptionOfItsMeasurementChangesTheScore) {
  std::set<std::string> scores;
  for (const json& options : {json::object(), json{{"fps", 8.0}}, json{{"fps", 8.0}, {"duration", 1.0}}}) {
    Sample moving("moving");
    moving.set("mp4", testing::load("bbb_A.mp4"));
    json with{{"mode", "score"}};
    with.update(options);
    scores.insert(facts_in(applied("filter.motion", with, moving).results.emitted.at(0)).at("scores").dump());
  }
  EXPECT_EQ(scores.size(), 3u) << json(scores);
}

// In half a second only the first frame is examined, and it is an intra frame.
TEST(FilterMotion, KeepsWhatItCannotMeasureAndSaysSo) {
  Sample shorter("short");
  shorter.set("mp4", testing::make_video(testing::small_video(), 12));
  for (const char* mode : {"on", "score"}) {
    const Applied kept = applied("filter.motion", {{"mode", mode}}, shorter);
    ASSERT_EQ(kept.results.emitted.size(), 1u) << mode;
    const json facts = facts_in(kept.results.emitted[0]);
    EXPECT_THAT(facts.at("filter.motion").get<std::string>(), HasSubstr("not measured"));
    EXPECT_FALSE(facts.contains("scores")) << facts;
  }
}

std::string refusal(const char* id, const json& options) {
  try {
    core::OneStage(testing::runtime(), id, options);
  } catch (const Error& e) {
    return e.what();
  }
  return "none";
}

// Options that would fail or filter every clip are refused before the first video.
TEST(ClipOptions, ThatNoClipCanHaveAreRefused) {
  for (const char* id : {"clip.transcode", "video.clips"}) {
    const auto lengths = refusal(id, {{"min_length", 30.0}, {"max_length", 10.0}});
    EXPECT_THAT(lengths, HasSubstr("min_length = 30 is above max_length = 10")) << id;
    EXPECT_THAT(lengths, HasSubstr("lower min_length or raise max_length")) << id;
    EXPECT_EQ(refusal(id, {{"min_length", 10.0}, {"max_length", 10.0}}), "none") << id;
  }
}

TEST(ClipOptions, PresetIsOneOfX264) {
  for (const char* id : {"clip.transcode", "video.clips", "video.write"}) {
    const auto wrong = refusal(id, {{"preset", "veryfst"}});
    EXPECT_THAT(wrong, HasSubstr("preset")) << id;
    EXPECT_THAT(wrong, HasSubstr("veryfast")) << id;
    EXPECT_EQ(refusal(id, {{"preset", "placebo"}}), "none") << id;
  }
}

}  // namespace
}  // namespace kinora::video
