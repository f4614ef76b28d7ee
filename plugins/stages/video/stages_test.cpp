// The stages of the built plugin, through the C ABI, on generated videos with known content.
#include <cmath>

#include "media/scaler.hpp"
#include "stage_testing.hpp"

namespace kinora::video {
namespace {

using core::json;
using testing::Applied;
using testing::applied;
using testing::Bytes;
using testing::facts_in;
using ::testing::HasSubstr;
using testing::runtime;

struct Rgb {
  double r, g, b;
};

// Hue in degrees, the others in 0..1.
Rgb from_hsv(double hue, double saturation, double value) {
  const auto channel = [&](double n) {
    const double k = std::fmod(n + hue / 60, 6);
    return 255 * (value - value * saturation * std::max(0.0, std::min({k, 4 - k, 1.0})));
  };
  return {channel(5), channel(3), channel(1)};
}

constexpr int kWide = 64, kHigh = 36;

// Frames of kWide x kHigh; colour(frame, x, y).
template <class F>
Sample made_video(int frames, int fps, F&& colour) {
  EncoderOptions options = testing::small_video(kWide, kHigh);
  options.crf = 2;
  options.fps = {fps, 1};
  Encoder encoder(options);
  for (int i = 0; i < frames; ++i) {
    Bytes rgb;
    for (int y = 0; y < kHigh; ++y)
      for (int x = 0; x < kWide; ++x) {
        const Rgb c = colour(i, x, y);
        for (const double v : {c.r, c.g, c.b}) rgb.push_back(static_cast<uint8_t>(std::lround(v)));
      }
    encoder.write_rgb(rgb.data());
  }
  Sample out("made");
  out.set("mp4", encoder.finish());
  return out;
}

Sample plain(int frames, int fps, const Rgb& colour) {
  return made_video(frames, fps, [&](int, int, int) { return colour; });
}

Rgb grey(double level) { return {level, level, level}; }

std::string caption(const Sample& video) {
  const core::OneStage describe(runtime(), "caption.describe", json::object());
  return std::string(describe(video).need("txt"));
}

TEST(Caption, IsOnePlainSentence) {
  EXPECT_EQ(caption(plain(12, 4, {250, 240, 20})),
            "A short bright video of 3.0 seconds, mostly yellow, with almost no motion and low contrast.");
}

TEST(Caption, NamesColoursAsPeopleDo) {
  struct Case {
    double hue, saturation, value;
    const char* name;
  };
  const Case cases[] = {{0, 0.9, 0.9, "red"},      {10, 0.9, 0.9, "red"},   {20, 0.9, 0.9, "orange"},
                        {36, 0.9, 0.9, "orange"},  {30, 0.8, 0.5, "brown"}, {46, 0.9, 0.9, "yellow"},
                        {62, 0.9, 0.9, "yellow"},  {74, 0.9, 0.9, "green"}, {120, 0.9, 0.6, "green"},
                        {158, 0.9, 0.9, "green"},  {172, 0.9, 0.9, "cyan"}, {189, 0.9, 0.9, "cyan"},
                        {202, 0.9, 0.9, "blue"},   {248, 0.9, 0.9, "blue"}, {263, 0.9, 0.9, "purple"},
                        {322, 0.9, 0.9, "purple"}, {338, 0.9, 0.9, "red"},  {0, 0, 0.06, "black"},
                        {0, 0, 0.5, "grey"},       {0, 0, 0.97, "white"},   {240, 0.9, 0.08, "black"},
                        {240, 0.06, 0.95, "white"}};
  for (const auto& c : cases)
    EXPECT_THAT(caption(plain(2, 4, from_hsv(c.hue, c.saturation, c.value))),
                HasSubstr(std::string("mostly ") + c.name + ","))
        << c.hue << " " << c.saturation << " " << c.value;
}

TEST(Caption, NamesTheTwoColoursThatCoverMost) {
  const auto flag = [](double share) {
    return made_video(2, 4, [=](int, int x, int) {
      return x < share * kWide ? Rgb{220, 10, 10} : Rgb{10, 10, 220};
    });
  };
  EXPECT_THAT(caption(flag(0.7)), HasSubstr("mostly red and blue,"));
  EXPECT_THAT(caption(flag(0.3)), HasSubstr("mostly blue and red,"));
  EXPECT_THAT(caption(flag(0.06)), HasSubstr("mostly blue,"));
}

TEST(Caption, TellsTheLight) {
  for (const auto& [level, word] : {std::pair{0.1, "dark"},
                                    {0.22, "dark"},
                                    {0.28, "dim"},
                                    {0.42, "dim"},
                                    {0.48, "evenly lit"},
                                    {0.66, "evenly lit"},
                                    {0.74, "bright"},
                                    {0.95, "bright"}})
    EXPECT_THAT(caption(plain(2, 4, grey(255 * level))), HasSubstr(std::string(" ") + word + " video"))
        << level;
}

TEST(Caption, TellsTheLength) {
  for (const auto& [frames, words] : {std::pair{4, "A very short"},
                                      {7, "A very short"},
                                      {9, "A short"},
                                      {19, "A short"},
                                      {21, "An"},
                                      {59, "An"},
                                      {61, "A long"}}) {
    const std::string text = caption(plain(frames, 4, grey(128)));
    EXPECT_EQ(text.rfind(std::string(words) + " evenly lit", 0), 0u) << frames << ": " << text;
    EXPECT_THAT(text, HasSubstr(fmt::format(" of {:.1f} seconds", std::floor(frames * 2.5 + 0.5) / 10)));
  }
  EXPECT_THAT(caption(plain(40, 4, grey(26))), ::testing::StartsWith("A dark video of 10.0 seconds"));
  EXPECT_THAT(caption(plain(1, 4, grey(128))), HasSubstr(" video of one frame,"));
  EXPECT_THAT(caption(plain(2, 60, grey(128))), HasSubstr(" of less than 0.1 seconds,"));
}

// Grey that rises and falls by `step` levels twice per second changes by 2 x step levels per second.
TEST(Caption, TellsTheMotion) {
  for (const auto& [step, words] : {std::pair{0, "almost no motion"},
                                    {4, "slow motion"},
                                    {10, "slow motion"},
                                    {16, "moderate motion"},
                                    {36, "moderate motion"},
                                    {45, "fast motion"},
                                    {100, "fast motion"}})
    EXPECT_THAT(
        caption(made_video(9, 2, [&, step = step](int i, int, int) { return grey(100 + (i % 2) * step); })),
        HasSubstr(std::string("with ") + words))
        << step;
}

TEST(Caption, AMovingSquareMovesAndAStillOneDoesNot) {
  const auto square = [](int pixels_a_frame) {
    return made_video(10, 4, [=](int i, int x, int y) {
      const int left = 4 + i * pixels_a_frame;
      return grey(x >= left && x < left + 12 && y >= 12 && y < 24 ? 230 : 20);
    });
  };
  EXPECT_THAT(caption(square(0)), HasSubstr("almost no motion"));
  EXPECT_THAT(caption(square(1)), HasSubstr("slow motion"));
  EXPECT_THAT(caption(square(4)), HasSubstr("moderate motion"));
}

TEST(Caption, TellsTheContrast) {
  for (const auto& [apart, word] :
       {std::pair{0, "low"}, {50, "low"}, {70, "medium"}, {110, "medium"}, {135, "high"}, {200, "high"}})
    EXPECT_THAT(caption(made_video(2, 4,
                                   [&, apart = apart](int, int x, int) {
                                     return grey(128 + (x < kWide / 2 ? -apart : apart) / 2);
                                   })),
                HasSubstr(std::string("and ") + word + " contrast."))
        << apart;
}

TEST(Caption, FromTheFramesThatAnEarlierStageSampledEqualsThatFromTheVideo) {
  const Sample video = made_video(24, 4, [](int i, int x, int) {
    return x < 20 + i ? Rgb{220, 10, 10} : Rgb{10, 10, 220};
  });
  Sample read = core::OneStage(runtime(), "video.read", json::object())(video);
  json at = json::array();
  for (int i = 0; i < 24; ++i) at.push_back(i / 4.0);
  read.set("json", json{{"frames_at", at}, {"duration_s", 6.0}}.dump());
  read.remove("mp4");
  const core::OneStage describe(runtime(), "caption.describe", json::object());
  const Sample from_frames = describe(read), from_video = describe(video);
  EXPECT_EQ(from_frames.need("txt"), from_video.need("txt"));
  for (const char* what : {"brightness", "contrast", "motion"})
    EXPECT_NEAR(facts_in(from_frames)["measured"][what], facts_in(from_video)["measured"][what],
                0.02 * facts_in(from_video)["measured"][what].get<double>())
        << what;
  EXPECT_EQ(facts_in(from_frames)["measured"]["colours"], facts_in(from_video)["measured"]["colours"]);
  EXPECT_EQ(facts_in(from_frames)["caption"], (json{{"by", "caption.describe"}}));
}

TEST(Read, BeginsWhereTheSampleSays) {
  const core::OneStage read(runtime(), "video.read", json{{"first", 1}, {"frames", 1}});
  Sample video = made_video(24, 4, [](int i, int, int) { return grey(10 * i); });
  EXPECT_EQ(facts_in(read(video))["frames_at"], json({0.25}));
  video.set("first", "6");
  EXPECT_EQ(facts_in(read(video))["frames_at"], json({1.5}));
  video.set("first", "-1");
  EXPECT_THROW((void)read(video), Error);
}

TEST(Caption, TheUsersOwnWins) {
  const auto after = [](const char* about, const json& options) {
    Sample in = plain(4, 4, grey(128));
    in.set("txt", "mine");
    in.set("json", about);
    return std::string(core::OneStage(runtime(), "caption.describe", options)(in).need("txt"));
  };
  const char *user = R"({"caption":{"by":"user"}})", *nobody = "{}",
             *stage = R"({"caption":{"by":"caption.describe"}})";
  for (const char* about : {user, nobody, stage}) EXPECT_EQ(after(about, json::object()), "mine");
  for (const char* about : {user, nobody}) EXPECT_EQ(after(about, {{"keep", false}}), "mine");
  EXPECT_THAT(after(stage, {{"keep", false}}), HasSubstr("evenly lit"));
  EXPECT_THAT(after(user, {{"keep", false}, {"replace_user", true}}), HasSubstr("evenly lit"));
}

// A sample with eight frames [96, 64].
constexpr int kFrames = 8, kWidth = 96, kHeight = 64;
Sample with_frames() {
  Bytes pixels;
  for (int i = 0; i < kFrames; ++i) {
    const Bytes one = testing::picture(kWidth, kHeight, 4 * i);
    pixels.insert(pixels.end(), one.begin(), one.end());
  }
  Sample out("made");
  out.set_tensor("frames", std::move(pixels), {kFrames, kHeight, kWidth, 3}, KINORA_DL_UINT, 8);
  return out;
}

std::vector<Bytes> decoded_rgb(const Sample& sample, const char* field, Probe& probe) {
  const auto bytes = sample.bytes(field);
  EXPECT_TRUE(bytes.has_value());
  MemorySource source(*bytes);
  Decoder decoder(source, field);
  probe = decoder.probe();
  Scaler scaler({.width = probe.video.width, .height = probe.video.height});
  std::vector<Bytes> out;
  while (const Frame* frame = decoder.next())
    scaler.bytes(*frame->picture,
                 out.emplace_back(static_cast<size_t>(probe.video.width) * probe.video.height * 3).data());
  return out;
}

TEST(VideoWrite, AVideoHasTheFramesInTheirOrderAtTheRate) {
  const core::OneStage write(runtime(), "video.write", {{"fps", 12.5}, {"crf", 4}});
  Sample in = with_frames();
  in.set("comment", "what it is");
  const Sample out = write(in);
  EXPECT_EQ(out.tensor("frames"), nullptr);
  Probe probe;
  const auto frames = decoded_rgb(out, "mp4", probe);
  ASSERT_EQ(frames.size(), size_t{kFrames});
  EXPECT_EQ(probe.video.width, kWidth);
  EXPECT_EQ(probe.video.height, kHeight);
  EXPECT_DOUBLE_EQ(probe.video.fps.value(), 12.5);
  EXPECT_NEAR(probe.duration_s, kFrames / 12.5, 1e-3);
  EXPECT_NE(std::find(probe.metadata.begin(), probe.metadata.end(),
                      std::pair<std::string, std::string>("comment", "what it is")),
            probe.metadata.end());
  for (int i = 0; i < kFrames; ++i) {
    const auto likeness = [&](int k) {
      return testing::psnr(frames[static_cast<size_t>(i)], testing::picture(kWidth, kHeight, 4 * k));
    };
    EXPECT_GT(likeness(i), 30) << i;
    for (int k = 0; k < kFrames; ++k) {
      if (k == i) continue;
      EXPECT_LT(likeness(k), likeness(i) - 3) << "frame " << i << " looks like frame " << k;
    }
  }
}

TEST(VideoWrite, PicturesAndAnimationsSayTheCommentAndKeepTheirPixels) {
  const std::string comment = R"({"prompt":"K\u00e4se & <b>","n":1})";
  const auto text_of = [](const Sample& s, const char* field) {
    const auto bytes = *s.bytes(field);
    return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
  Sample in = with_frames();
  in.set("comment", comment);
  const core::OneStage png(runtime(), "video.write", {{"format", "png"}});
  const Sample plain = png(with_frames()), said = png(in);
  const std::string chunk =
      text_of(said, "png").substr(33, text_of(said, "png").size() - text_of(plain, "png").size());
  EXPECT_EQ(chunk.substr(4, 16), std::string("iTXtComment\0\0\0\0\0", 16));
  EXPECT_EQ(chunk.substr(20, chunk.size() - 24), comment);
  Probe probe;
  EXPECT_EQ(decoded_rgb(said, "png", probe), decoded_rgb(plain, "png", probe));
  const core::OneStage webp(runtime(), "video.write", {{"format", "webp"}});
  const std::string animation = text_of(webp(in), "webp");
  EXPECT_THAT(animation, ::testing::HasSubstr(R"("n":1})"));
  EXPECT_THAT(animation, ::testing::HasSubstr("&amp; &lt;b&gt;"));
  EXPECT_EQ(animation[20] & 4, 4) << "the header says that there is XMP";
  uint32_t size = 0;
  std::memcpy(&size, animation.data() + 4, 4);
  EXPECT_EQ(size + 8, animation.size());
}

TEST(VideoWrite, APictureHasTheFramesSideBySide) {
  const core::OneStage write(runtime(), "video.write", {{"format", "png"}});
  Probe probe;
  const auto pictures = decoded_rgb(write(with_frames()), "png", probe);
  ASSERT_EQ(pictures.size(), 1u);
  ASSERT_EQ(probe.video.width, kWidth * kFrames);
  ASSERT_EQ(probe.video.height, kHeight);
  for (int i = 0; i < kFrames; ++i) {
    const Bytes expected = testing::picture(kWidth, kHeight, 4 * i);
    for (int y = 0; y < kHeight; ++y) {
      const auto at = pictures[0].begin() + (y * kFrames + i) * kWidth * 3;
      ASSERT_TRUE(std::equal(at, at + kWidth * 3, expected.begin() + y * kWidth * 3))
          << "frame " << i << " row " << y;
    }
  }
}

int64_t frames_of(const Sample& clip) {
  const auto bytes = clip.bytes("mp4");
  MemorySource source(*bytes);
  return count_frames(source, "clip").frames;
}

TEST(ClipTranscode, AVideoWithoutShotsIsOneShot) {
  Sample video("bbb");
  video.set("mp4", testing::load("bbb_D.mp4"));
  const Applied whole = applied("clip.transcode", {{"preset", "ultrafast"}, {"edge_crop", 0.0}}, video);
  EXPECT_EQ(whole.error, "");
  ASSERT_EQ(whole.results.emitted.size(), 1u);
  EXPECT_EQ(frames_of(whole.results.emitted[0]), 48);
}

// A clip's facts describe its own file, not the source video.
TEST(ClipTranscode, AClipsFactsAreItsOwn) {
  const core::OneStage probe(runtime(), "video.probe", json::object());
  const Sample in = probe(made_video(20, 10, [](int i, int, int) { return Rgb{i * 10.0, 100, 50}; }));
  EXPECT_EQ(facts_in(in).at("height"), kHigh);
  const Applied out = applied("clip.transcode",
                              {{"preset", "ultrafast"},
                               {"max_height", kHigh / 2},
                               {"min_length", 0.1},
                               {"min_frames", 1},
                               {"edge_crop", 0.0}},
                              in);
  ASSERT_EQ(out.error, "");
  const json facts = testing::facts_in(out.results.emitted.at(0));
  EXPECT_EQ(facts.at("height"), kHigh / 2);
  EXPECT_EQ(facts.at("width"), kWide / 2);
  EXPECT_EQ(facts.at("frames"), 20);
  EXPECT_FALSE(facts.at("frames_estimated").get<bool>());
  EXPECT_NEAR(facts.at("duration_s").get<double>(), 2, 1e-3);
  EXPECT_EQ(facts.at("rotation"), 0);
}

json all_of_small() {
  return {{"preset", "ultrafast"}, {"max_height", 64}, {"audio", false},
          {"min_length", 0.5},     {"min_frames", 1},  {"edge_crop", 0.0}};
}

// Intact clips are emitted; damaged clips and the video fail with a reason.
TEST(ClipTranscode, DamageCostsWhatItHits) {
  Bytes bytes = testing::load("film.mp4");
  for (size_t i = 150'000; i < 150'400; ++i) bytes[i] ^= 0x5a;  // in the first shot
  Sample video("film");
  video.set("mp4", Bytes(bytes));
  const core::OneStage shots(runtime(), "shots.content", json::object());
  const Applied rot = applied("clip.transcode", all_of_small(), shots(video));
  EXPECT_THAT(rot.error, HasSubstr("film.mp4: incomplete pictures from frame"));
  ASSERT_EQ(rot.results.failed.size(), 1u);
  EXPECT_EQ(rot.results.failed[0].key, "film-0000");
  EXPECT_THAT(rot.results.failed[0].reason, HasSubstr("clip [0, 84) is damaged from frame"));
  EXPECT_EQ(rot.results.emitted.size(), 11u);
  EXPECT_TRUE(rot.results.dropped.empty());

  bytes.resize(bytes.size() / 2);
  video.set("mp4", std::move(bytes));
  const Sample cut = shots(video);
  EXPECT_THAT(core::damage_of(cut), HasSubstr("cut off"));
  const Applied half = applied("clip.transcode", all_of_small(), cut);
  EXPECT_EQ(half.error, core::damage_of(cut));
  for (const Sample& clip : half.results.emitted) {
    const json facts = testing::facts_in(clip);
    EXPECT_EQ(frames_of(clip), facts.at("end_frame").get<int64_t>() - facts.at("first_frame").get<int64_t>());
    EXPECT_FALSE(facts.contains("damaged"));
  }
}

}  // namespace
}  // namespace kinora::video
