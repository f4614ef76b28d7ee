#include "media/encoder.hpp"

#include "media/audio_reader.hpp"
#include "media/media_testing.hpp"
#include "media/scaler.hpp"

namespace kinora::video {
namespace {

using testing::Bytes;
using testing::Decoded;
using testing::error_of;

TEST(Encoder, FramesComeBackOnceEachAndOnTime) {
  const Rational rates[] = {{24, 1}, {30000, 1001}, {1, 2}, {240, 1}};
  for (const Rational& fps : rates) {
    for (const char* preset : {"ultrafast", "medium"}) {  // without and with reordered frames
      EncoderOptions options = testing::small_video();
      options.fps = fps;
      options.preset = preset;
      const Decoded video = testing::decode(testing::make_video(options, 17));
      EXPECT_EQ(video.probe.video.fps, fps);
      ASSERT_EQ(video.seconds.size(), 17u);
      for (size_t i = 0; i < 17; ++i)
        EXPECT_NEAR(video.seconds[i], static_cast<double>(i) / fps.value(), 1e-4);
      EXPECT_NEAR(video.probe.duration_s, 17 / fps.value(), 1e-3);
    }
  }
}

TEST(Encoder, RgbSurvives) {
  EncoderOptions options = testing::small_video(128, 96);
  options.crf = 4;
  const Bytes video = testing::make_video(options, 8);
  MemorySource source{std::span(video)};
  Decoder decoder(source, "made.mp4");
  Scaler scaler({.width = 128, .height = 96});
  Bytes rgb(128 * 96 * 3);
  while (const Frame* frame = decoder.next()) {
    scaler.bytes(*frame->picture, rgb.data());
    EXPECT_GT(testing::psnr(rgb, testing::picture(128, 96, frame->index)), 38) << frame->index;
  }
}

TEST(Encoder, OddSidesLoseOneLine) {
  const Decoded video = testing::decode(testing::make_video(testing::small_video(97, 65), 3));
  EXPECT_EQ(video.probe.video.width, 96);
  EXPECT_EQ(video.probe.video.height, 64);
  const Decoded even = testing::decode(testing::make_video(testing::small_video(1, 1), 2));
  EXPECT_EQ(even.probe.video.width, 2);
}

TEST(Encoder, SameInputSameBytes) {
  EncoderOptions options = testing::small_video();
  options.audio = {44100, 2, 0};
  options.metadata = {{"title", "twice"}};
  EXPECT_EQ(testing::make_video(options, 30), testing::make_video(options, 30));
}

TEST(Encoder, IndexComesBeforeTheMediaData) {
  const Bytes video = testing::make_video(testing::small_video(), 10);
  const std::string bytes(video.begin(), video.end());
  ASSERT_NE(bytes.find("moov"), std::string::npos);
  EXPECT_LT(bytes.find("moov"), bytes.find("mdat"));
}

TEST(Encoder, RefusalsNameTheOption) {
  const auto with = [](auto change) {
    return error_of([&] {
      EncoderOptions options = testing::small_video();
      change(options);
      Encoder encoder(options);
    });
  };
  EXPECT_NE(with([](auto& o) { o.width = 0; }).find("0 x 64"), std::string::npos);
  EXPECT_NE(with([](auto& o) { o.preset = "quick"; }).find("'quick'"), std::string::npos);
  EXPECT_NE(with([](auto& o) { o.crf = 99; }).find("99"), std::string::npos);
  EXPECT_NE(with([](auto& o) { o.fps = {0, 1}; }).find("fps"), std::string::npos);
  EXPECT_NE(with([](auto& o) { o.metadata = {{"seed", "7"}}; }).find("'seed'"), std::string::npos);
  EXPECT_NE(with([](auto& o) { o.audio = {44100, 99, 0}; }).find("channels"), std::string::npos);
  EXPECT_NE(error_of([] { Encoder(testing::small_video()).finish(); }).find("no frame"), std::string::npos);
}

}  // namespace
}  // namespace kinora::video
