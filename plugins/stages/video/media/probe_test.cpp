#include "media/probe.hpp"

#include "media/aac_track.hpp"
#include "media/media_testing.hpp"
#include "media/mp4_writer.hpp"

namespace kinora::video {
namespace {

using testing::Bytes;
using testing::error_of;

// Expected values: `ffprobe -count_frames -show_streams` of Debian 12's FFmpeg 5.1.
struct KnownProbe {
  const char* file;
  const char* codec;
  int width, height;
  Rational fps;
  int64_t frames;
  const char* pixel_format;
  const char* matrix;
  const char* audio;  // empty: none
  int rate, channels;
};

const KnownProbe kKnownProbes[] = {
    {"film.mp4", "h264", 640, 360, {24, 1}, 880, "yuv420p", "bt709", "aac", 44100, 1},
    {"film_excerpt.webm", "vp8", 320, 180, {24, 1}, 168, "yuv420p", "bt709", "vorbis", 44100, 1},
    {"city_cc0.mp4", "h264", 640, 360, {25, 1}, 190, "yuv420p", "unknown", "", 0, 0},
    {"cockatoo.mp4", "h264", 1280, 720, {20, 1}, 280, "yuv444p", "unknown", "mp3", 16000, 1},
    {"calais_1906.ogv", "theora", 214, 160, {15, 1}, 288, "yuv420p", "unknown", "", 0, 0},
};

TEST(Probe, AgreesWithFfprobe) {
  for (const KnownProbe& known : kKnownProbes) {
    SCOPED_TRACE(known.file);
    FileSource source(testing::data(known.file));
    const Probe found = probe(source, known.file);
    EXPECT_EQ(found.video.codec, known.codec);
    EXPECT_EQ(found.video.width, known.width);
    EXPECT_EQ(found.video.height, known.height);
    EXPECT_EQ(found.video.fps, known.fps);
    EXPECT_EQ(found.video.frames, known.frames);
    EXPECT_EQ(found.video.pixel_format, known.pixel_format);
    EXPECT_EQ(found.video.colour.matrix_name(), known.matrix);
    EXPECT_NEAR(found.duration_s, static_cast<double>(known.frames) / known.fps.value(), 0.05);
    EXPECT_EQ(found.audio.has_value() ? found.audio->codec : "", known.audio);
    EXPECT_EQ(found.audio.has_value() ? found.audio->rate : 0, known.rate);
    EXPECT_EQ(found.audio.has_value() ? found.audio->channels : 0, known.channels);
    EXPECT_EQ(found.damage, "");
  }
}

TEST(Probe, RoundTripsWhatTheEncoderWrote) {
  EncoderOptions options = testing::small_video(96, 64);
  options.fps = {30000, 1001};
  options.rotation_tag = 90;
  options.sample_aspect = {4, 3};
  options.colour = {9, 9, 16, 1};  // BT.2020, PQ
  options.metadata = {{"title", "Übung"}, {"comment", R"({"steps":35,"seed":7})"}};
  const Bytes video = testing::make_video(options, 5);
  MemorySource source{std::span(video)};
  const Probe found = probe(source, "made.mp4");
  EXPECT_EQ(found.video.fps, options.fps);
  EXPECT_EQ(found.video.frames, 5);
  EXPECT_FALSE(found.video.frames_estimated);
  EXPECT_EQ(found.video.rotation, 90);
  EXPECT_EQ(found.video.sample_aspect, options.sample_aspect);
  EXPECT_EQ(found.video.colour, options.colour);
  EXPECT_EQ(found.video.field_order, "progressive");
  for (const auto& entry : options.metadata) {
    EXPECT_NE(std::find(found.metadata.begin(), found.metadata.end(), entry), found.metadata.end())
        << entry.first;
  }
}

// A phone held upright writes the matrix (0 1; -1 0), and players turn the picture clockwise by 90 degrees.
TEST(Probe, RotationIsClockwise) {
  EncoderOptions options = testing::small_video();
  options.rotation_tag = 90;
  const Bytes video = testing::make_video(options, 2);
  const std::string tkhd = "tkhd";
  const auto box = std::search(video.begin(), video.end(), tkhd.begin(), tkhd.end());
  ASSERT_NE(box, video.end());
  const Bytes matrix(box + 4 + 40, box + 4 + 40 + 20);  // ISO/IEC 14496-12, 8.3.2, version 0: a b u c d
  EXPECT_EQ(matrix, (Bytes{0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 0, 0, 0, 0, 0, 0}));
  MemorySource source{std::span(video)};
  EXPECT_EQ(probe(source, "made.mp4").video.rotation, 90);
}

std::string refusal(const Bytes& bytes, const Limits& limits = {}, const char* name = "input.bin") {
  MemorySource source{std::span(bytes)};
  return error_of([&] { probe(source, name, limits); });
}

Bytes sound_only() {
  Mp4Writer writer({});
  AacTrack track({44100, 1, 0}, writer);
  writer.start(44100);
  const std::vector<float> silence(44100);
  const float* plane = silence.data();
  track.write(&plane, 44100);
  track.finish();
  return writer.finish();
}

TEST(Probe, RefusalsNameTheFileAndTheCause) {
  const Bytes video = testing::load("bbb_D.mp4");
  std::string prose;
  for (int i = 0; i < 200; ++i) prose += "It was the best of times, it was the worst of times.\n";
  const std::pair<Bytes, const char*> cases[] = {
      {{}, "is empty"},
      {testing::text(prose), "not a video file"},
      {Bytes(5000, 0), "not a video file"},
      {testing::text("#EXTM3U\n#EXT-X-TARGETDURATION:9\n#EXTINF:9,\nfile:///etc/passwd\n#EXT-X-ENDLIST\n"),
       "playlist"},
      {testing::text("ffconcat version 1.0\nfile /etc/passwd\n"), "playlist"},
      {Bytes(video.begin(), video.begin() + 900), "cut off"},
      {sound_only(), "no video stream"},
  };
  for (const auto& [bytes, cause] : cases) {
    const std::string message = refusal(bytes);
    EXPECT_NE(message.find(cause), std::string::npos) << message;
    EXPECT_EQ(message.find("input.bin: "), 0u) << message;
  }
  EXPECT_NE(refusal(Bytes(5000, 0)).find("; give a container such as mp4"), std::string::npos);
  for (const char* name : {"corrupt.mp4", "CORRUPT.MOV", "a.b.webm"})
    EXPECT_NE(refusal(Bytes(5000, 0), {}, name).find("; no known container is inside; fetch it again"),
              std::string::npos)
        << name;
}

TEST(Probe, RefusesPicturesOverTheLimits) {
  const Bytes video = testing::load("bbb_D.mp4");
  EXPECT_NE(refusal(video, {.max_side = 639}).find("640 x 360 pixels, over the limit"), std::string::npos);
  EXPECT_NE(refusal(video, {.max_pixels = 640 * 360 - 1}).find("over the limit"), std::string::npos);
  MemorySource source{std::span(video)};
  EXPECT_EQ(probe(source, "film", {.max_side = 640, .max_pixels = 640 * 360}).video.width, 640);
}

TEST(Probe, TellsThatBytesAreMissingBehindIntactHeaders) {
  for (const char* name : {"film.mp4", "film_excerpt.webm"}) {
    Bytes video = testing::load(name);
    video.resize(video.size() * 2 / 3);
    MemorySource source{std::span(video)};
    EXPECT_NE(probe(source, name).damage.find("cut off"), std::string::npos) << name;
  }
}

// A failing source is not a damaged video: the caller receives the source's own exception.
TEST(Probe, ExceptionsOfTheSourcePassThrough) {
  struct Failing final : ByteSource {
    int64_t size() override { return 1000; }
    int64_t read_at(int64_t, void*, int64_t) override { throw std::runtime_error("connection reset"); }
  } source;
  EXPECT_THROW(
      {
        try {
          probe(source, "film");
        } catch (const MediaError&) {
          FAIL() << "the error blames the video";
        }
      },
      std::runtime_error);
}

int64_t declared(const Bytes& bytes) {
  MemorySource source{std::span(bytes)};
  return declared_size(source);
}

TEST(Extent, ACutFileDeclaresMoreThanItHas) {
  for (const char* name : {"film.mp4", "bbb_A.mp4", "film_excerpt.webm"}) {
    Bytes video = testing::load(name);
    const auto whole = static_cast<int64_t>(video.size());
    EXPECT_EQ(declared(video), whole) << name;
    video.resize(video.size() / 2);
    EXPECT_GT(declared(video), whole / 2) << name;
  }
}

TEST(Extent, UnknownIsZeroAndPaddingIsIgnored) {
  EXPECT_EQ(declared(testing::load("calais_1906.ogv")), 0);
  EXPECT_EQ(declared({}), 0);
  for (const uint8_t padding : {0x00, 0xFF}) {
    Bytes padded = testing::load("bbb_D.mp4");
    padded.insert(padded.end(), 100, padding);
    EXPECT_LE(declared(padded), static_cast<int64_t>(padded.size()));
  }
}

TEST(Extent, RiffChunksAddUp) {
  Bytes avi = testing::text(std::string("RIFF\x0c\0\0\0AVI LIST\0\0\0\0", 20));
  EXPECT_EQ(declared(avi), 20);
  avi.resize(16);
  EXPECT_EQ(declared(avi), 20);
}

TEST(Extent, LiveMatroskaHasNoLength) {
  const Bytes live{0x1A, 0x45, 0xDF, 0xA3, 0x80, 0x18, 0x53, 0x80, 0x67,
                   0x01, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF};
  EXPECT_EQ(declared(live), 0);
}

}  // namespace
}  // namespace kinora::video
