#include "clips/feed.hpp"
#include "clips/transcode.hpp"
#include "media/media_testing.hpp"

namespace kinora::video {
namespace {

using testing::Bytes;

Bytes video_with_sound() {
  EncoderOptions options = testing::small_video();
  options.audio = {12000, 1, 0};
  return testing::make_video(options, 48);
}

TEST(SoundFeed, GivesEverySampleOnceUpToEachFrame) {
  const Bytes video = video_with_sound();
  MemorySource source{std::span(video)};
  SoundFeed feed(source, "film", true, {1, 1000});
  feed.start(500);
  int64_t samples = 0;
  for (const int64_t until : {541, 583, 1500})
    feed.until(until,
               [&](const auto& planes, bool) { samples += static_cast<int64_t>(planes->front().size()); });
  EXPECT_EQ(samples, 12000);
}

// 30,000 years of sound would be 43 million pieces of silence.
TEST(SoundFeed, LeapsWithTheVideosClock) {
  const Bytes video = video_with_sound();
  MemorySource source{std::span(video)};
  for (const int64_t seconds : {int64_t{3500}, int64_t{1'000'000'000'000}}) {
    SoundFeed feed(source, "film", true, {1, 1});
    feed.start(0);
    int64_t pieces = 0;
    feed.until(seconds, [&](const auto&, bool) {
      if (++pieces > 1000) throw MediaError("too many");
    });
    EXPECT_EQ(pieces, seconds == 3500 ? 641 : 1);  // of 65,536 samples
  }
}

// Frame 20 is shown five hours after frame 19.
TEST(SoundFeed, AClipOverALeapFailsAndTheNextIsWhole) {
  EncoderOptions options = testing::small_video();
  options.audio = {12000, 1, 0};
  options.time_base = {1, 100};
  Encoder encoder(options);
  const std::vector<float> sound(500, 0.25F);
  const float* plane = sound.data();
  for (int64_t i = 0; i < 60; ++i) {
    auto frame = ff::new_frame();
    frame->width = options.width, frame->height = options.height, frame->format = AV_PIX_FMT_GRAY8;
    ASSERT_GE(av_frame_get_buffer(frame.get(), 0), 0);
    for (int y = 0; y < frame->height; ++y)
      std::fill_n(frame->data[0] + ptrdiff_t{frame->linesize[0]} * y, frame->width,
                  static_cast<uint8_t>(4 * i));
    encoder.write(*frame, 4 * i + (i < 20 ? 0 : int64_t{2'000'000}));
    encoder.write_audio(&plane, 500);
  }
  const Bytes video = encoder.finish();
  MemorySource source{std::span(video)};
  TranscodeOptions transcoding;
  transcoding.preset = "ultrafast";
  std::vector<Clip> clips;
  transcode_clips(source, "film", {{0, 10}, {10, 40}, {40, 60}}, transcoding,
                  [&](size_t, Clip clip) { clips.push_back(std::move(clip)); });
  ASSERT_EQ(clips.size(), 3u);
  EXPECT_EQ(clips[0].error, "");
  EXPECT_NE(clips[1].error.find("spans over an hour"), std::string::npos) << clips[1].error;
  EXPECT_EQ(clips[2].error, "");
  EXPECT_EQ(testing::decode(clips[2].bytes).luma.size(), 20u);
}

}  // namespace
}  // namespace kinora::video
