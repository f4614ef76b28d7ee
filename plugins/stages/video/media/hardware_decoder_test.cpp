// A card that decodes in place of the CPU: the same frames, whatever becomes of the card. The card of these
// tests is pretended; gpu_test.cpp has NVIDIA's.
#include "media/hardware_decoder.hpp"

#include <random>

#include "clips/transcode.hpp"
#include "media/convert.hpp"
#include "media/hardware_testing.hpp"

namespace kinora::video {
namespace {

using testing::Bytes;
using testing::error_of;
using ::testing::HasSubstr;
using testing::PretendedCard;
using testing::report;
using testing::Report;

TEST(HardwareDecoder, ItsFramesTakeThePlaceOfTheCpus) {
  for (const char* name : {"bbb_A.mp4", "city_cc0.mp4", "film_excerpt.webm"}) {
    SCOPED_TRACE(name);
    FileSource source(testing::data(name));
    const Report cpu = report(source);
    const PretendedCard card;
    const Report hardware = report(source, {.hardware = &card});
    EXPECT_EQ(hardware.frames, cpu.frames);
    EXPECT_EQ(card.pictures, static_cast<int64_t>(cpu.frames.size())) << "the card decodes all of them";
    EXPECT_TRUE(hardware.fallbacks.empty());
    EXPECT_EQ(hardware.damage, "");
  }
}

TEST(HardwareDecoder, TheCpuTakesOverWithoutLosingOrDoublingAFrame) {
  FileSource source(testing::data("bbb_A.mp4"));
  const Report cpu = report(source);
  const auto count = static_cast<int64_t>(cpu.frames.size());
  for (const int64_t at : {int64_t{0}, int64_t{1}, int64_t{60}, count - 1}) {
    SCOPED_TRACE(at);
    PretendedCard card;
    card.fails_at = at;
    const Report mixed = report(source, {.hardware = &card});
    EXPECT_EQ(mixed.frames, cpu.frames);
    EXPECT_EQ(card.pictures, at);
    EXPECT_EQ(mixed.damage, "") << "the video itself is intact";
    ASSERT_EQ(mixed.fallbacks.size(), 1u);
    EXPECT_THAT(mixed.fallbacks[0],
                HasSubstr("a.mp4: PRETENDED fails at or before frame " + std::to_string(at)));
    EXPECT_THAT(mixed.fallbacks[0], HasSubstr("h264, yuv420p"));
  }
}

TEST(HardwareDecoder, ACardThatRefusesIsSaidOnceAndNotUsed) {
  FileSource source(testing::data("bbb_D.mp4"));
  PretendedCard card;
  card.refusal = "no such codec on this card";
  const Report refused = report(source, {.hardware = &card});
  EXPECT_EQ(refused.frames, report(source).frames);
  EXPECT_EQ(refused.fallbacks, std::vector<std::string>{"a.mp4: no such codec on this card"});
  EXPECT_EQ(card.pictures, 0);
}

// With and without an index, and with a card that fails on the way to the target or after it.
TEST(HardwareDecoder, SkippingIsFrameExactThroughAFailure) {
  FileSource source(testing::data("city_cc0.mp4"));
  Decoder whole(source, "film");
  std::vector<testing::Delivered> all;
  while (const Frame* frame = whole.next()) all.emplace_back(*frame);
  const auto index = std::make_shared<const FrameIndex>(whole.index());
  const auto count = static_cast<int64_t>(all.size());
  for (const bool seeks : {true, false})
    for (const int64_t fails_at : {-1, 0, 2, 30, 90}) {
      SCOPED_TRACE(std::to_string(fails_at) + (seeks ? " with" : " without") + " an index");
      PretendedCard card;
      card.fails_at = fails_at;
      Decoder decoder(source, "film", {.index = seeks ? index : nullptr, .hardware = &card});
      for (const int64_t target : {count / 2, int64_t{3}, count / 3, count - 2}) {
        decoder.skip_to(target);
        for (int64_t i = target; i < std::min(target + 2, count); ++i) {
          const Frame* frame = decoder.next();
          ASSERT_NE(frame, nullptr) << i;
          EXPECT_EQ(testing::Delivered(*frame), all[static_cast<size_t>(i)]) << i;
        }
      }
      EXPECT_GT(card.pictures, fails_at < 0 ? 0 : -1);
      EXPECT_EQ(decoder.damaged(), "");
    }
}

// The CPU's decoder alone reports and conceals damage.
TEST(HardwareDecoder, ADamagedVideoIsTheCpusToTheLastFrame) {
  std::mt19937 random(7);
  int damaged = 0;
  for (int round = 0; round < 6; ++round) {
    SCOPED_TRACE(round);
    Bytes video = testing::load("bbb_D.mp4");
    for (int i = 0; i < 3; ++i) video[video.size() / 4 + random() % (video.size() / 2)] ^= 0x55;
    MemorySource source{std::span(video)};
    const PretendedCard card;
    const Report cpu = report(source), hardware = report(source, {.hardware = &card});
    damaged += cpu.damage.empty() ? 0 : 1;
    EXPECT_EQ(hardware.frames, cpu.frames);
    EXPECT_EQ(hardware.damage, cpu.damage);
    EXPECT_EQ(hardware.fallbacks.size(), cpu.damage.empty() ? 0u : 1u);
  }
  EXPECT_GT(damaged, 2) << "the bytes that are changed hit pictures";
}

TEST(HardwareDecoder, HardwareOnlyFailsWithARemedy) {
  FileSource source(testing::data("bbb_D.mp4"));
  PretendedCard refusing, failing;
  refusing.refusal = "no such codec on this card";
  failing.fails_at = 9;
  const auto error = [&](const PretendedCard& card) {
    return error_of([&] { report(source, {.hardware = &card, .hardware_only = true}); });
  };
  EXPECT_EQ(error(refusing),
            "a.mp4: no such codec on this card; set decoder = \"auto\" to decode on the CPU then");
  EXPECT_THAT(error(failing), HasSubstr("a.mp4: PRETENDED fails at or before frame 9 (h264, yuv420p, "));
  EXPECT_THAT(error(failing), HasSubstr("set decoder = \"auto\""));
}

TEST(HardwareDecoder, ClipsHaveTheSameBytesThroughAFailure) {
  FileSource source(testing::data("bbb_A.mp4"));
  const auto clips = [&](const HardwareDecoder* card) {
    TranscodeOptions options;
    options.preset = "ultrafast";
    options.parallel = 2;
    options.decoder.hardware = card;
    std::vector<Bytes> out;
    transcode_clips(source, "film", {{5, 30}, {40, 70}, {100, 120}}, options, [&](size_t, const Clip& clip) {
      EXPECT_EQ(clip.error, "");
      out.push_back(clip.bytes);
    });
    return out;
  };
  PretendedCard card;
  card.fails_at = 50;
  EXPECT_EQ(clips(&card), clips(nullptr));
  EXPECT_EQ(card.pictures, 50);
}

TEST(Nvdec, WithoutACardTheCpuDecodesAndSaysWhy) {
  if (why_no_nvdec().empty()) GTEST_SKIP() << "this machine has NVDEC";
  FileSource source(testing::data("bbb_D.mp4"));
  const Report automatic = report(source, {.hardware = &nvdec()});
  EXPECT_EQ(automatic.frames, report(source).frames);
  ASSERT_EQ(automatic.fallbacks.size(), 1u);
  EXPECT_THAT(automatic.fallbacks[0],
              HasSubstr("a.mp4: NVDEC needs an NVIDIA card, its driver and an FFmpeg"));
  EXPECT_THAT(error_of([&] { report(source, {.hardware = &nvdec(), .hardware_only = true}); }),
              HasSubstr("set decoder = \"auto\""));
}

// Values by hand: 5 x 3 pixels have 3 x 2 of chroma.
TEST(PlanesApart, KeepsEveryValueOfEveryDepth) {
  const auto check = [](auto sample, AVPixelFormat woven, AVPixelFormat planar, int shift) {
    using T = decltype(sample);
    const auto picture = allocate_picture(5, 3, woven);
    const auto at = [](const AVFrame& f, int plane, int y) {
      return reinterpret_cast<T*>(f.data[plane] + ptrdiff_t{f.linesize[plane]} * y);
    };
    for (int y = 0; y < 3; ++y)
      for (int x = 0; x < 5; ++x) at(*picture, 0, y)[x] = static_cast<T>((10 * y + x) << shift);
    for (int y = 0; y < 2; ++y)
      for (int x = 0; x < 6; ++x) at(*picture, 1, y)[x] = static_cast<T>((100 + 10 * y + x) << shift);
    const auto out = planes_apart(*picture, planar);
    for (int y = 0; y < 3; ++y)
      for (int x = 0; x < 5; ++x) EXPECT_EQ(at(*out, 0, y)[x], 10 * y + x);
    for (int y = 0; y < 2; ++y)
      for (int x = 0; x < 3; ++x) {
        EXPECT_EQ(at(*out, 1, y)[x], 100 + 10 * y + 2 * x);
        EXPECT_EQ(at(*out, 2, y)[x], 101 + 10 * y + 2 * x);
      }
  };
  check(uint8_t{}, AV_PIX_FMT_NV12, AV_PIX_FMT_YUV420P, 0);
  check(uint16_t{}, AV_PIX_FMT_P010, AV_PIX_FMT_YUV420P10, 6);
  check(uint16_t{}, AV_PIX_FMT_P016, AV_PIX_FMT_YUV420P12, 4);
}

}  // namespace
}  // namespace kinora::video
