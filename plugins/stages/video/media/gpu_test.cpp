// NVIDIA's decoder and encoder. Each test is skipped, with the reason, where there is none.
#include <cstdlib>

#include "media/encoder.hpp"
#include "media/hardware_testing.hpp"

namespace kinora::video {
namespace {

using testing::Bytes;
using ::testing::HasSubstr;
using testing::report;
using testing::Report;

class NvdecTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!why_no_nvdec().empty()) GTEST_SKIP() << why_no_nvdec();
  }
  // Makes a video with the program ffmpeg; its path, or "" if this ffmpeg lacks the encoder.
  static std::string made(const std::string& name, const std::string& encoding) {
    const std::string path = ::testing::TempDir() + name;
    const std::string command =
        "ffmpeg -nostdin -v quiet -y -f lavfi -i testsrc2=size=642x358:rate=25:duration=3 " + encoding + " " +
        path;
    return std::system(command.c_str()) == 0 ? path : "";
  }
  static void expect_cpus_frames(const std::filesystem::path& path, bool hardware_only = true) {
    SCOPED_TRACE(path);
    FileSource source(path);
    const Report cpu = report(source),
                 card = report(source, {.hardware = &nvdec(), .hardware_only = hardware_only});
    EXPECT_GT(cpu.frames.size(), 40u);
    EXPECT_EQ(card.frames, cpu.frames);
    EXPECT_EQ(card.damage, cpu.damage);
  }
};

TEST_F(NvdecTest, H264FramesAreTheCpusToTheBit) {
  for (const char* name : {"bbb_A.mp4", "bbb_B.mp4", "bbb_C.mp4", "bbb_D.mp4", "city_cc0.mp4", "film.mp4"})
    expect_cpus_frames(testing::data(name));
}

// Other codecs, 10 bits, interlaced fields, and a size that is cropped from whole blocks. FFmpeg 5.1 does not
// decode AV1 on an H200: the CPU takes over there.
TEST_F(NvdecTest, FramesOfOtherCodecsAreTheCpusToTheBit) {
  int tried = 0;
  for (const auto& [name, encoding] :
       {std::pair{"interlaced.mp4", "-vf scale=640:360 -c:v libx264 -flags +ildct+ilme -pix_fmt yuv420p"},
        {"full_range.mp4", "-c:v libx264 -pix_fmt yuvj420p"},
        {"hevc.mp4", "-c:v libx265 -x265-params log-level=none -pix_fmt yuv420p"},
        {"hevc10.mp4", "-c:v libx265 -x265-params log-level=none -pix_fmt yuv420p10"},
        {"vp9.webm", "-c:v libvpx-vp9 -cpu-used 8 -pix_fmt yuv420p"},
        {"av1.mp4", "-c:v libsvtav1 -preset 12 -pix_fmt yuv420p"}}) {
    const std::string path = made(name, encoding);
    if (path.empty()) continue;
    ++tried;
    expect_cpus_frames(path, name != std::string_view("av1.mp4"));
  }
  EXPECT_GT(tried, 1) << "the program ffmpeg makes these videos";
}

TEST_F(NvdecTest, SkippingIsFrameExact) {
  FileSource source(testing::data("film.mp4"));
  Decoder whole(source, "film");
  std::vector<testing::Delivered> all;
  while (const Frame* frame = whole.next()) all.emplace_back(*frame);
  const auto index = std::make_shared<const FrameIndex>(whole.index());
  Decoder decoder(source, "film", {.index = index, .hardware = &nvdec(), .hardware_only = true});
  for (const int64_t target : {700, 20, 435, 879}) {
    decoder.skip_to(target);
    const Frame* frame = decoder.next();
    ASSERT_NE(frame, nullptr);
    EXPECT_EQ(testing::Delivered(*frame), all[static_cast<size_t>(target)]);
  }
}

TEST_F(NvdecTest, WhatTheCardLacksIsDecodedByTheCpu) {
  for (const auto& [name, reason] : {std::pair{"cockatoo.mp4", "h264, yuv444p, 1280 x 720"},
                                     {"calais_1906.ogv", "this video is theora"}}) {
    SCOPED_TRACE(name);
    FileSource source(testing::data(name));
    const Report automatic = report(source, {.hardware = &nvdec()});
    EXPECT_EQ(automatic.frames, report(source).frames);
    ASSERT_EQ(automatic.fallbacks.size(), 1u);
    EXPECT_THAT(automatic.fallbacks[0], HasSubstr(reason));
  }
}

class NvencTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!nvenc_opens()) GTEST_SKIP() << "no GPU whose video encoder can be opened";
  }
  static std::vector<Bytes> frames_at(const char* codec, int crf) {
    EncoderOptions options = testing::small_video(320, 240);
    options.codec = codec;
    options.crf = crf;
    return testing::decode(testing::make_video(options, 48)).luma;
  }
};

TEST_F(NvencTest, ItsFramesDecodeAndAreCloseToTheOriginals) {
  const auto original = frames_at("libx264", 0), encoded = frames_at("h264_nvenc", 20);
  ASSERT_EQ(encoded.size(), 48u);
  for (size_t i = 0; i < encoded.size(); ++i) EXPECT_GT(testing::psnr(encoded[i], original[i]), 35) << i;
}

TEST_F(NvencTest, CrfZeroIsLossless) { EXPECT_EQ(frames_at("h264_nvenc", 0), frames_at("libx264", 0)); }

}  // namespace
}  // namespace kinora::video
