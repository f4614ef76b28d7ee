// Sources that clips cannot store unchanged: more bits, more chroma, HDR, odd sides; files without pictures;
// and stills.
#include <filesystem>

#include <gmock/gmock.h>

#include "media/image.hpp"
#include "stage_testing.hpp"

namespace kinora::video {
namespace {

using core::json;
using testing::Applied;
using testing::applied;
using testing::Bytes;
using testing::facts_in;
using ::testing::HasSubstr;

// 24 frames by ffmpeg with these options; empty if ffmpeg is missing.
Bytes made_by_ffmpeg(const std::string& options) {
  const auto path =
      std::filesystem::path(::testing::TempDir()) / ("pictures-" + std::to_string(getpid()) + ".mp4");
  const bool made =
      !testing::output_of("ffmpeg -nostdin -v error -y " + options + " '" + path.string() + "' && echo made")
           .empty();
  Bytes out;
  if (made) {
    FileSource file(path);
    out.resize(static_cast<size_t>(file.size()));
    file.read_at(0, out.data(), file.size());
  }
  std::filesystem::remove(path);
  return out;
}

// Luma in 8 bits of limited range, as computed by ffmpeg: [T][height * width].
std::vector<Bytes> luma_by_ffmpeg(const Bytes& video, int width, int height) {
  const auto path =
      std::filesystem::path(::testing::TempDir()) / ("luma-" + std::to_string(getpid()) + ".mp4");
  FILE* file = fopen(path.c_str(), "wb");
  EXPECT_EQ(fwrite(video.data(), 1, video.size(), file), video.size());
  fclose(file);
  const std::string crop = "crop=" + std::to_string(width) + ":" + std::to_string(height) + ":0:0";
  const Bytes all = testing::output_of("ffmpeg -nostdin -v error -i '" + path.string() +
                                       "' -vf format=yuv444p," + crop + ",extractplanes=y -f rawvideo -");
  std::filesystem::remove(path);
  std::vector<Bytes> out;
  const size_t size = static_cast<size_t>(width) * static_cast<size_t>(height);
  for (size_t at = 0; at + size <= all.size(); at += size)
    out.emplace_back(all.begin() + at, all.begin() + at + size);
  return out;
}

const char* const kHdr =
    " -color_primaries bt2020 -color_trc smpte2084 -colorspace bt2020nc -color_range tv ";

TEST(ClipPictures, HdrOfTenBitsKeepsItsTagsAndItsCurve) {
  struct Case {
    const char *format, *size;
    int width, height;  // of the clip
  };
  for (const Case& c : {Case{"yuv422p10le", "96x64", 96, 64}, Case{"yuv444p10le", "97x63", 96, 62}}) {
    SCOPED_TRACE(c.format);
    const Bytes bytes = made_by_ffmpeg(std::string("-f lavfi -i testsrc2=s=") + c.size +
                                       ":r=24:d=1 -c:v libx264 -crf 10 -pix_fmt " + c.format + kHdr);
    if (bytes.empty()) GTEST_SKIP() << "no ffmpeg with libx264 of ten bits";
    Sample video("film");
    video.set("mp4", Bytes(bytes));
    const auto expected = luma_by_ffmpeg(bytes, c.width, c.height);
    ASSERT_EQ(expected.size(), 24u);
    for (const char* id : {"clip.transcode", "video.clips"}) {
      const Applied out = applied(
          id, {{"crf", 6}, {"min_length", 0.5}, {"min_frames", 1}, {"edge_crop", 0.0}}, video.clone("film"));
      ASSERT_EQ(out.error, "");
      ASSERT_EQ(out.results.emitted.size(), 1u);
      const auto clip = *out.results.emitted[0].bytes("mp4");
      const testing::Decoded found = testing::decode(Bytes(clip.begin(), clip.end()));
      EXPECT_EQ(found.probe.video.pixel_format, "yuv420p");
      EXPECT_EQ(found.probe.video.width, c.width);
      EXPECT_EQ(found.probe.video.height, c.height);
      const Colour hdr{9, 9, 16, 1};  // H.273: BT.2020, not constant; BT.2020; PQ; limited
      EXPECT_EQ(found.probe.video.colour, hdr);
      ASSERT_EQ(found.luma.size(), expected.size());
      for (size_t i = 0; i < expected.size(); ++i)
        EXPECT_GT(testing::psnr(found.luma[i], expected[i]), 40) << i;
    }
  }
}

TEST(ClipPictures, AVideoOfSoundAloneFailsAndSaysSo) {
  const Bytes bytes = made_by_ffmpeg("-f lavfi -i sine=d=1 -c:a aac");
  if (bytes.empty()) GTEST_SKIP() << "no ffmpeg";
  Sample video("film");
  video.set("mp4", Bytes(bytes));
  for (const char* id : {"shots", "clip.transcode", "video.clips", "clip.preview", "filter.motion"})
    EXPECT_THAT(applied(id, json::object(), video.clone("film")).error, HasSubstr("no video stream")) << id;
}

Sample still(const char* field, Bytes file) {
  Sample out("still");
  out.set(field, std::move(file));
  return out;
}

// 32 x 32 of a picture of 96 x 64 are the means of 2 x 2 pixels of its middle, whoever decodes it.
TEST(Stills, AreCroppedToTheMiddleAndShrunkByMeans) {
  constexpr int kWidth = 96, kHeight = 64, kSide = 32;
  const Bytes rgb = testing::picture(kWidth, kHeight, 1);
  for (const auto& [field, format, most] : {std::tuple{"jpg", "jpeg", 6}, {"png", "png", 2}}) {
    const Applied out = applied("video.read", {{"height", kSide}, {"width", kSide}},
                                still(field, encode_image(rgb.data(), kHeight, kWidth, format, 100)));
    ASSERT_EQ(out.error, "");
    const auto* frames = out.results.emitted.at(0).tensor("frames");
    ASSERT_EQ(std::vector<int64_t>(frames->shape, frames->shape + frames->ndim),
              (std::vector<int64_t>{1, kSide, kSide, 3}));
    const auto* found = static_cast<const uint8_t*>(frames->data) + frames->byte_offset;
    const json facts = facts_in(out.results.emitted.at(0));
    EXPECT_EQ(facts.at("frames_at"), json({0.0}));
    EXPECT_NEAR(facts.at("cropped").get<double>(), 1. / 3, 1e-9);
    for (int i = 0; i < kSide * kSide * 3; ++i) {
      const int x = 16 + 2 * (i / 3 % kSide), y = 2 * (i / 3 / kSide);
      const auto at = [&](int dx, int dy) { return rgb[((y + dy) * kWidth + x + dx) * 3 + i % 3]; };
      ASSERT_NEAR(found[i], (at(0, 0) + at(1, 0) + at(0, 1) + at(1, 1)) / 4.0, most) << field << i;
    }
  }
}

TEST(Stills, OfAJpegThatIsCutOffTheDamageIsAFact) {
  Bytes file = encode_image(testing::picture(96, 64, 1).data(), 64, 96, "jpeg");
  file.resize(file.size() / 2);
  for (const auto& [id, options] :
       {std::pair{"video.read", json::object()}, {"video.probe", json{{"count", true}}}}) {
    const Applied out = applied(id, options, still("jpg", file));
    ASSERT_EQ(out.results.emitted.size(), 1u) << out.error;
    EXPECT_THAT(facts_in(out.results.emitted[0]).value("damaged", ""), HasSubstr("still.jpg: a damaged JPEG"))
        << id;
  }
}

// `upright` [kUprightHeight, kUprightWidth, 3], stored so that its first row and first column are at these sides.
constexpr int kUprightHeight = 48, kUprightWidth = 64;
struct Stored {
  Bytes rgb;
  int height, width;
};
Stored stored(const Bytes& upright, const std::string& row, const std::string& column) {
  const bool swaps = row == "left" || row == "right";
  Stored out{Bytes(upright.size()), swaps ? kUprightWidth : kUprightHeight,
             swaps ? kUprightHeight : kUprightWidth};
  for (int y = 0; y < out.height; ++y)
    for (int x = 0; x < out.width; ++x) {
      int from_y = -1, from_x = -1;
      for (const auto& [side, at] : {std::pair{row, y}, {column, x}}) {
        if (side == "top") from_y = at;
        if (side == "bottom") from_y = kUprightHeight - 1 - at;
        if (side == "left") from_x = at;
        if (side == "right") from_x = kUprightWidth - 1 - at;
      }
      for (int c = 0; c < 3; ++c)
        out.rgb[(y * out.width + x) * 3 + c] = upright[(from_y * kUprightWidth + from_x) * 3 + c];
    }
  return out;
}

// A file with Exif's tag of orientation, big-endian: after JPEG's first marker, or after PNG's header.
Bytes tagged(Bytes file, const std::string& format, int orientation) {
  const Bytes tiff{'M', 'M',  0, 42, 0, 0, 0, 8, 0, 1,
                   1,   0x12, 0, 3,  0, 0, 0, 1, 0, static_cast<uint8_t>(orientation),
                   0,   0,    0, 0,  0, 0};
  Bytes part;
  if (format == "jpeg") {
    part = {0xFF, 0xE1, 0, static_cast<uint8_t>(8 + tiff.size()), 'E', 'x', 'i', 'f', 0, 0};
    part.insert(part.end(), tiff.begin(), tiff.end());
  } else {
    part = {0, 0, 0, static_cast<uint8_t>(tiff.size()), 'e', 'X', 'I', 'f'};
    part.insert(part.end(), tiff.begin(), tiff.end());
    uint32_t crc = ~0U;  // of type and content, as in the PNG specification, annex D
    for (size_t i = 4; i < part.size(); ++i) {
      crc ^= part[i];
      for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320U : 0);
    }
    for (int shift = 24; shift >= 0; shift -= 8) part.push_back(static_cast<uint8_t>(~crc >> shift));
  }
  file.insert(file.begin() + (format == "jpeg" ? 2 : 33), part.begin(), part.end());
  return file;
}

// CIPA DC-008, 4.6.4 A: the sides at which the stored first row and first column are, for tags 1 to 8.
TEST(Stills, AreUprightAsExifSays) {
  constexpr std::array<std::array<const char*, 2>, 8> kSides{{{"top", "left"},
                                                              {"top", "right"},
                                                              {"bottom", "right"},
                                                              {"bottom", "left"},
                                                              {"left", "top"},
                                                              {"right", "top"},
                                                              {"right", "bottom"},
                                                              {"left", "bottom"}}};
  const Bytes upright = testing::picture(kUprightWidth, kUprightHeight, 1);
  for (int tag = 1; tag <= 8; ++tag)
    for (const auto& [field, format, most] : {std::tuple{"jpg", "jpeg", 12}, {"png", "png", 0}})
      for (const auto& [id, options] :
           {std::pair{"video.read", json::object()},
            {"picture.read", json{{"sample_height", 0}}},
            {"video.read", json{{"height", kUprightHeight}, {"width", kUprightWidth}}}}) {
        const auto as = stored(upright, kSides[tag - 1][0], kSides[tag - 1][1]);
        const Applied out = applied(
            id, options,
            still(field, tagged(encode_image(as.rgb.data(), as.height, as.width, format, 100), format, tag)));
        ASSERT_EQ(out.error, "") << tag;
        const Sample& made = out.results.emitted.at(0);
        const auto* frames = made.tensor("frames");
        ASSERT_EQ(std::vector<int64_t>(frames->shape, frames->shape + frames->ndim),
                  (std::vector<int64_t>{1, kUprightHeight, kUprightWidth, 3}));
        const auto* found = static_cast<const uint8_t*>(frames->data) + frames->byte_offset;
        for (size_t i = 0; i < upright.size(); ++i)
          ASSERT_NEAR(found[i], upright[i], most) << id << " " << field << " tag " << tag << " at " << i;
        if (id == std::string("picture.read")) {
          EXPECT_EQ(facts_in(made).at("width"), kUprightWidth);
          EXPECT_EQ(facts_in(made).at("height"), kUprightHeight);
        } else {
          EXPECT_FALSE(facts_in(made).contains("cropped"));
        }
      }
}

TEST(Stills, HaveOneFrame) {
  const Bytes file = encode_image(testing::picture(96, 64, 1).data(), 64, 96, "jpeg");
  EXPECT_THAT(applied("video.read", {{"first", 1}}, still("jpg", file)).error,
              HasSubstr("no frame from number 1"));
}

}  // namespace
}  // namespace kinora::video
