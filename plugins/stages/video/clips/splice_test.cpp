// Clips that are copied, encoded in parallel, cropped and sampled.
#include <cstdlib>
#include <filesystem>
#include <unistd.h>

#include "clips/clip_sampler.hpp"
#include "clips/transcode.hpp"
#include "media/ffmpeg.hpp"
#include "media/media_testing.hpp"
#include "media/packet_index.hpp"
#include "media/parameter_sets.hpp"
#include "media/scaler.hpp"

namespace kinora::video {
namespace {

using testing::Bytes;
using testing::Decoded;
using testing::ffmpeg_has_nvenc;

constexpr int64_t kFrames = 150;

// A key frame every 20 frames with B-frames between, and sound if `rate` is not 0.
Bytes video_of_groups(int rate = 0, const char* preset = "medium") {
  EncoderOptions options = testing::small_video();
  options.preset = preset;
  options.key_interval = 20;
  options.crf = 12;
  if (rate > 0) options.audio = {rate, 1, 0};
  return testing::make_video(options, kFrames);
}

TranscodeOptions copying(ByteSource& video, int64_t frames = kFrames) {
  TranscodeOptions options;
  options.preset = "veryfast";
  options.crf = 4;
  options.copy = true;
  options.packets = index_packets(video, "film", frames);
  EXPECT_NE(options.packets, nullptr);
  return options;
}

std::vector<Clip> cut(ByteSource& video, const std::vector<Range>& ranges, const TranscodeOptions& options) {
  std::vector<Clip> clips;
  transcode_clips(video, "film", ranges, options, [&](size_t i, Clip clip) {
    EXPECT_EQ(i, clips.size());
    EXPECT_EQ(clip.error, "");
    clips.push_back(std::move(clip));
  });
  EXPECT_EQ(clips.size(), ranges.size());
  return clips;
}

// Compares every frame of the clip with the video's frame at its position: equal where copied, close where
// encoded, and on time.
void expect_frames(const Clip& clip, const Decoded& video, const Range& range, const Range& copied) {
  const Decoded found = testing::decode(clip.bytes);
  EXPECT_EQ(found.damage, "");
  ASSERT_EQ(static_cast<int64_t>(found.luma.size()), range.end - range.first);
  EXPECT_EQ(found.probe.video.frames, range.end - range.first);
  EXPECT_EQ(clip.copied, copied.end - copied.first);
  for (int64_t i = range.first; i < range.end; ++i) {
    const auto at = static_cast<size_t>(i - range.first), in_video = static_cast<size_t>(i);
    EXPECT_NEAR(found.seconds[at], video.seconds[in_video] - video.seconds[static_cast<size_t>(range.first)],
                1e-6)
        << i;
    if (i >= copied.first && i < copied.end) {
      EXPECT_TRUE(found.luma[at] == video.luma[in_video]) << "copied frame " << i;
    } else {
      EXPECT_GT(testing::psnr(found.luma[at], video.luma[in_video]), 44) << "encoded frame " << i;
    }
  }
}

TEST(PacketIndex, KnowsWhereFramesAndGroupsLie) {
  for (const char* preset : {"ultrafast", "medium"}) {
    const Bytes video = video_of_groups(0, preset);
    MemorySource source{std::span(video)};
    const auto index = index_packets(source, "film", kFrames);
    ASSERT_NE(index, nullptr);
    Decoder decoder(source, "film");
    while (decoder.next() != nullptr) {
    }
    EXPECT_EQ(index->frames->pts, decoder.index().pts);
    EXPECT_EQ(index->frames->keys, decoder.index().keys);
    ASSERT_EQ(index->gops.size(), 8u);
    for (size_t g = 0; g < 8; ++g) {
      EXPECT_EQ(index->gops[g].first, static_cast<int64_t>(20 * g));
      EXPECT_EQ(index->gops[g].end, std::min<int64_t>(kFrames, 20 * static_cast<int64_t>(g) + 20));
      EXPECT_TRUE(index->gops[g].copyable);
    }
    EXPECT_EQ(whole_gops(*index, {5, 117}), (Range{20, 100}));
    EXPECT_EQ(whole_gops(*index, {0, kFrames}), (Range{0, kFrames}));
    const Range none = whole_gops(*index, {21, 59});
    EXPECT_EQ(none.first, none.end);
    EXPECT_EQ(index_packets(source, "film", kFrames - 1), nullptr)
        << "a different number of frames means another video";
  }
}

// Open groups: frames shown before a key frame depend on earlier frames, so copying cannot start there.
TEST(PacketIndex, RealVideosAgreeWithTheirDecoding) {
  for (const char* name : {"film.mp4", "bbb_A.mp4", "city_cc0.mp4", "cockatoo.mp4", "film_excerpt.webm"}) {
    FileSource video(testing::data(name));
    Decoder decoder(video, name);
    while (decoder.next() != nullptr) {
    }
    const auto index = index_packets(video, name, decoder.position());
    ASSERT_NE(index, nullptr) << name;
    EXPECT_EQ(index->frames->pts, decoder.index().pts) << name;
  }
}

TEST(ParameterSets, AnIdThatNobodyHas) {
  EncoderOptions options = testing::small_video();
  options.parameter_set = 1;
  const Bytes video = testing::make_video(options, 5);
  MemorySource source{std::span(video)};
  const auto index = index_packets(source, "film", 5);
  ASSERT_EQ(index->parameters.sequence.size(), 1u);
  EXPECT_EQ(free_id(index->parameters), 2);
  ParameterSets again;
  ASSERT_TRUE(read_avcc(write_avcc(index->parameters), again));
  EXPECT_EQ(again.sequence, index->parameters.sequence);
  EXPECT_EQ(again.picture, index->parameters.picture);
  for (const Bytes& broken :
       {Bytes{}, Bytes{1, 100, 0, 31, 0xFF, 0xE1, 0, 9, 1}, Bytes{0, 0, 0, 1, 0x67, 1, 2, 3}})
    EXPECT_FALSE(read_avcc(broken, again = {}));
}

TEST(Copy, WholeGroupsAreTheVideosOwnAndRaggedEndsAreEncoded) {
  for (const char* preset : {"ultrafast", "medium"}) {  // without and with B-frames
    SCOPED_TRACE(preset);
    const Bytes video = video_of_groups(0, preset);
    MemorySource source{std::span(video)};
    const Decoded all = testing::decode(video);
    const std::vector<Range> ranges{{0, 40}, {40, 95}, {95, 133}, {133, 150}};
    const std::vector<Range> copied{{0, 40}, {40, 80}, {95, 95}, {133, 133}};
    const auto clips = cut(source, ranges, copying(source));
    for (size_t i = 0; i < ranges.size(); ++i) expect_frames(clips[i], all, ranges[i], copied[i]);
    const Range inside{13, 147};
    expect_frames(cut(source, {inside}, copying(source))[0], all, inside, {20, 140});
    expect_frames(cut(source, {{60, 150}}, copying(source))[0], all, {60, 150}, {60, 150});
  }
}

TEST(Copy, RealVideosFrameByFrame) {
  for (const char* name : {"film.mp4", "bbb_A.mp4", "city_cc0.mp4"}) {
    SCOPED_TRACE(name);
    FileSource video(testing::data(name));
    const Decoded all = testing::decode(video, name);
    const auto frames = static_cast<int64_t>(all.luma.size());
    TranscodeOptions options = copying(video, frames);
    for (const Range range : {Range{0, frames}, Range{3, frames - 2}}) {
      const Clip clip = cut(video, {range}, options)[0];
      Range run = whole_gops(*options.packets, range);
      if (clip.copied == 0) run = {range.first, range.first};
      expect_frames(clip, all, range, run);
      EXPECT_EQ(clip.copied > 0, range.end - range.first == frames || run.end - run.first >= 24);
    }
  }
}

TEST(Copy, IsLeftWhereSomethingChanges) {
  const Bytes video = video_of_groups();
  MemorySource source{std::span(video)};
  TranscodeOptions options = copying(source);
  options.max_height = 32;
  EXPECT_EQ(cut(source, {{0, 40}}, options)[0].copied, 0);
  options = copying(source);
  options.crop = {8, 8, 64, 48};
  EXPECT_EQ(cut(source, {{0, 40}}, options)[0].copied, 0);
  EncoderOptions turned = testing::small_video();
  turned.rotation_tag = 90;
  const Bytes rotated = testing::make_video(turned, 30);
  MemorySource rotated_source{std::span(rotated)};
  EXPECT_EQ(cut(rotated_source, {{0, 30}}, copying(rotated_source, 30))[0].copied, 0);
  options = copying(source);
  EXPECT_EQ(cut(source, {{0, 40}, {20, 60}}, options)[0].copied, 0) << "clips that overlap";
}

// Bytes do not depend on the number of clips encoded at once, on the waiting memory, or on which thread
// decodes.
TEST(Parallel, SameBytesForEveryDegreeAndMemory) {
  const Bytes video = video_of_groups(16000);
  MemorySource source{std::span(video)};
  const std::vector<Range> ranges{{0, 31}, {31, 40}, {44, 80}, {80, 81}, {81, 120}, {125, 150}};
  for (const bool copy : {false, true}) {
    TranscodeOptions options = copying(source);
    options.copy = copy;
    const auto expected = cut(source, ranges, options);
    for (const int parallel : {1, 2, 3, 8}) {
      for (const int64_t memory : {int64_t{1}, int64_t{60'000}, int64_t{1} << 28}) {
        for (const bool indexed : {true, false}) {
          if (copy && !indexed) continue;
          TranscodeOptions other = options;
          other.parallel = parallel;
          other.memory = memory;
          if (!indexed) other.packets = nullptr;
          const auto clips = cut(source, ranges, other);
          for (size_t i = 0; i < ranges.size(); ++i)
            EXPECT_TRUE(clips[i].bytes == expected[i].bytes)
                << "clip " << i << ", parallel " << parallel << ", memory " << memory << ", indexed "
                << indexed;
        }
      }
    }
  }
}

TEST(Parallel, OverlappingClipsAreThoseCutAlone) {
  const Bytes video = video_of_groups(16000);
  MemorySource source{std::span(video)};
  const std::vector<Range> ranges{{0, 60}, {10, 70}, {20, 80}, {75, 150}};
  TranscodeOptions options;
  options.preset = "veryfast";
  std::vector<Bytes> alone;
  for (const Range& range : ranges) alone.push_back(cut(source, {range}, options)[0].bytes);
  for (const int parallel : {1, 2}) {
    for (const int64_t memory : {int64_t{1}, int64_t{100'000}, int64_t{1} << 28}) {
      options.parallel = parallel;
      options.memory = memory;
      const auto clips = cut(source, ranges, options);
      for (size_t i = 0; i < ranges.size(); ++i)
        EXPECT_TRUE(clips[i].bytes == alone[i])
            << "clip " << i << ", parallel " << parallel << ", memory " << memory;
    }
  }
}

// An exception from the callback ends the call at once and leaves no thread behind.
TEST(Parallel, TheCallersErrorEndsIt) {
  const Bytes video = video_of_groups();
  MemorySource source{std::span(video)};
  TranscodeOptions options;
  options.preset = "ultrafast";
  options.parallel = 3;
  struct Enough {};
  int told = 0;
  EXPECT_THROW(transcode_clips(source, "film", {{0, 20}, {20, 50}, {50, 90}, {90, 150}}, options,
                               [&](size_t, const Clip&) {
                                 if (++told == 2) throw Enough{};
                               }),
               Enough);
  EXPECT_EQ(told, 2);
}

TEST(Crop, KeepsThatPartOfTheUprightPicture) {
  EncoderOptions encoding = testing::small_video(96, 64);
  encoding.crf = 4;
  const Crop crop{10, 6, 40, 34};
  for (const int rotation : {0, 90, 180, 270}) {
    SCOPED_TRACE(rotation);
    encoding.rotation_tag = rotation;
    const Bytes video = testing::make_video(encoding, 4);
    MemorySource source{std::span(video)};
    TranscodeOptions options;
    options.crf = 4;
    const Decoded whole = testing::decode(cut(source, {{0, 4}}, options)[0].bytes);
    options.crop = crop;
    options.sample_fps = 24;
    const Clip clip = cut(source, {{0, 4}}, options)[0];
    const Decoded part = testing::decode(clip.bytes);
    ASSERT_EQ(part.probe.video.width, crop.width);
    ASSERT_EQ(part.probe.video.height, crop.height);
    Bytes expected;
    for (int y = 0; y < crop.height; ++y) {
      const auto row = whole.luma[2].begin() + (y + crop.y) * whole.probe.video.width + crop.x;
      expected.insert(expected.end(), row, row + crop.width);
    }
    EXPECT_GT(testing::psnr(part.luma[2], expected), 44);
    EXPECT_EQ(clip.samples.width, crop.width);
    EXPECT_EQ(clip.samples.height, crop.height);
  }
}

TEST(Crop, RefusesWhatDoesNotLieInThePicture) {
  const Bytes video = video_of_groups();
  MemorySource source{std::span(video)};
  TranscodeOptions options;
  for (const Crop& crop : {Crop{-2, 0, 10, 10}, Crop{90, 0, 10, 10}, Crop{0, 60, 10, 10}, Crop{3, 3, 1, 1}}) {
    options.crop = crop;
    EXPECT_NE(testing::error_of([&] {
                cut(source, {{0, 5}}, options);
              }).find("is not within a picture of 96 x 64"),
              std::string::npos);
  }
}

// The frames shown at 0, 0.5 s, 1 s ... equal those of a decoder and a scaler, however the clip is made.
TEST(Samples, AreTheVideosFramesAtTheirTimes) {
  const Bytes video = video_of_groups();
  MemorySource source{std::span(video)};
  const Range range{13, 147};
  for (const bool copy : {false, true}) {
    TranscodeOptions options = copying(source);
    options.copy = copy;
    options.sample_fps = 2.5;
    options.sample_height = 32;
    const SampledFrames found = cut(source, {range}, options)[0].samples;
    ASSERT_EQ(found.height, 32);
    ASSERT_EQ(found.width, 48);
    ASSERT_EQ(found.count(), 14);  // 134 frames at 24 per second last 5.58 s
    Decoder decoder(source, "film");
    Scaler scaler({.width = 48, .height = 32});
    Bytes rgb(48 * 32 * 3);
    int64_t k = 0;
    while (const Frame* frame = decoder.next()) {
      const double at = static_cast<double>(frame->index - range.first) / 24;
      if (k == found.count() || at + 1e-6 < static_cast<double>(k) / 2.5) continue;
      scaler.bytes(*frame->picture, rgb.data());
      EXPECT_NEAR(found.at[static_cast<size_t>(k)], at, 1e-6);
      EXPECT_TRUE(
          std::equal(rgb.begin(), rgb.end(), found.pixels.begin() + k * static_cast<int64_t>(rgb.size())))
          << k;
      ++k;
    }
    EXPECT_EQ(k, found.count());
  }
}

TEST(Samples, TooManyFailTheirClipOnly) {
  const Bytes video = video_of_groups(16000);
  MemorySource source{std::span(video)};
  TranscodeOptions options;
  options.sample_fps = 24;
  options.memory = 1 << 20;
  options.preset = "ultrafast";
  std::vector<std::string> errors;
  transcode_clips(source, "film", {{0, 100}, {100, 130}}, options,
                  [&](size_t, const Clip& clip) { errors.push_back(clip.error); });
  EXPECT_NE(errors.at(0).find("clip [0, 100): more than 1 MiB of sampled frames"), std::string::npos)
      << errors[0];
  EXPECT_EQ(errors.at(1), "");
}

// Debian's FFmpeg has no openh264, so there this sees the refusal.
TEST(OpenH264, IsUsedOrRefusedWithARemedy) {
  const Bytes video = video_of_groups();
  MemorySource source{std::span(video)};
  TranscodeOptions options;
  options.encoder = "libopenh264";
  try {
    EXPECT_FALSE(cut(source, {{0, 20}}, options)[0].bytes.empty());
  } catch (const MediaError& e) {
    EXPECT_EQ(avcodec_find_encoder_by_name("libopenh264"), nullptr) << e.what();
    EXPECT_NE(std::string(e.what()).find("set encoder to libx264 or auto"), std::string::npos) << e.what();
  }
}

TEST(Nvenc, IsUsedOrRefusedWithARemedy) {
  const Bytes video = video_of_groups();
  MemorySource source{std::span(video)};
  TranscodeOptions options;
  options.encoder = "auto";
  EXPECT_FALSE(cut(source, {{0, 20}}, options)[0].bytes.empty());
  options.encoder = "h264_nvenc";
  try {
    EXPECT_FALSE(cut(source, {{0, 20}}, options)[0].bytes.empty());
  } catch (const MediaError& e) {
    EXPECT_FALSE(ffmpeg_has_nvenc()) << "ffmpeg encodes with NVENC here; " << e.what();
    EXPECT_NE(std::string(e.what()).find("Set encoder to libx264 or auto"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace kinora::video
