#include "media/decoder.hpp"

extern "C" {
#include <libavutil/md5.h>
}

#include <cstring>

#include "media/media_testing.hpp"

namespace kinora::video {
namespace {

using testing::Bytes;
using testing::Decoded;

// frames: `ffprobe -count_frames`; md5: `ffmpeg -i FILE -map 0:v:0 -vsync passthrough -f md5 -`, all pictures
// as raw planes; both by Debian 12's FFmpeg 5.1.
struct Reference {
  const char* file;
  int64_t frames;
  const char* md5;
};

const Reference kKnown[] = {
    {"bbb_A.mp4", 125, "97f5202e45a06ad9d5eed4230d70f4ea"},
    {"bbb_B.mp4", 125, "8c5c35a6a17e07fb7287dfe598cc4021"},
    {"bbb_C.mp4", 125, "975516d05f04123cae074e06bfd328fc"},
    {"bbb_D.mp4", 48, "c63ea35d651cad678f7cc395746c5514"},
    {"city_cc0.mp4", 190, "0623d378489499203ad9caed4e4ea4f8"},
    {"cockatoo.mp4", 280, "71ff747e5083776d7a8221b02026f164"},
    {"film.mp4", 880, "d4fe56e7d7d88e2d71a68c9f0f4e24b5"},
    {"calais_1906.ogv", 288, "e541c6211e6096496308ca1cb6d0cf8d"},
    {"film_excerpt.webm", 168, "42f90158695db77d3119de2d1438662c"},
};

class PictureSum {
 public:
  PictureSum() : md5_(av_md5_alloc()) { av_md5_init(md5_); }
  ~PictureSum() { av_free(md5_); }

  void add(const AVFrame& f) {
    const Bytes all = testing::planes(f);
    av_md5_update(md5_, all.data(), all.size());
  }

  std::string hex() {
    uint8_t digest[16];
    av_md5_final(md5_, digest);
    std::string text;
    for (const uint8_t byte : digest) {
      text += "0123456789abcdef"[byte >> 4];
      text += "0123456789abcdef"[byte & 15];
    }
    return text;
  }

 private:
  AVMD5* md5_;
};

TEST(Decoder, EveryPictureEqualsTheFfmpegCommands) {
  for (const Reference& known : kKnown) {
    SCOPED_TRACE(known.file);
    FileSource source(testing::data(known.file));
    Decoder decoder(source, known.file);
    PictureSum sum;
    int64_t frames = 0;
    double last = -1;
    while (const Frame* frame = decoder.next()) {
      EXPECT_EQ(frame->index, frames++);
      EXPECT_GT(frame->seconds, last);
      last = frame->seconds;
      sum.add(*frame->picture);
    }
    EXPECT_EQ(frames, known.frames);
    EXPECT_EQ(sum.hex(), known.md5);
    EXPECT_EQ(decoder.damaged(), "");
    EXPECT_EQ(decoder.next(), nullptr);  // a call after the end returns null again
    EXPECT_TRUE(decoder.index().exact);
  }
}

TEST(Decoder, ThreadsDoNotChangeThePictures) {
  FileSource source(testing::data("bbb_A.mp4"));
  const Decoded one = testing::decode(source, "bbb_A.mp4");
  const Decoded three = testing::decode(source, "bbb_A.mp4", {.threads = 3});
  EXPECT_EQ(one.luma, three.luma);
  EXPECT_EQ(one.pts, three.pts);
}

std::shared_ptr<const FrameIndex> learn(ByteSource& source) {
  Decoder decoder(source, "film");
  while (decoder.next() != nullptr) {
  }
  return std::make_shared<FrameIndex>(decoder.index());
}

// Skipping gives exactly the pictures of decoding from the start, with and without the index, forwards and
// backwards. Some pictures after key frames of cockatoo.mp4 depend on frames before the key frame.
TEST(Decoder, SkippingIsFrameExact) {
  for (const char* name : {"film.mp4", "film_excerpt.webm", "calais_1906.ogv", "cockatoo.mp4"}) {
    SCOPED_TRACE(name);
    FileSource source(testing::data(name));
    const Decoded all = testing::decode(source, name);
    const int64_t count = static_cast<int64_t>(all.luma.size());
    const auto index = learn(source);
    ASSERT_TRUE(index->exact);
    for (const bool seeks : {true, false}) {
      Decoder decoder(source, name, {.index = seeks ? index : nullptr});
      for (const int64_t target :
           {count / 2, count / 2 + 1, count - 2, int64_t{3}, count / 3, count - 1, int64_t{0}}) {
        decoder.skip_to(target);
        for (int64_t i = target; i < std::min(target + 3, count); ++i) {
          const Frame* frame = decoder.next();
          ASSERT_NE(frame, nullptr) << "frame " << i;
          EXPECT_EQ(frame->index, i);
          EXPECT_EQ(frame->pts, all.pts[i]);
          EXPECT_FALSE(frame->damaged) << "frame " << i << " after skip to " << target;
          EXPECT_EQ(testing::luma(*frame->picture), all.luma[i])
              << "frame " << i << " after skip to " << target;
        }
      }
      decoder.skip_to(count);
      EXPECT_EQ(decoder.next(), nullptr);
      EXPECT_EQ(decoder.damaged(), "");
    }
  }
}

TEST(Decoder, SkippingWithAnIndexReadsLess) {
  struct Counting final : ByteSource {
    explicit Counting(ByteSource& inner_source) : inner(inner_source) {}
    int64_t size() override { return inner.size(); }
    int64_t read_at(int64_t offset, void* buffer, int64_t n) override {
      const int64_t got = inner.read_at(offset, buffer, n);
      total += got;
      return got;
    }
    ByteSource& inner;
    int64_t total = 0;
  };
  FileSource file(testing::data("film.mp4"));
  const auto index = learn(file);
  Counting source(file);
  Decoder decoder(source, "film.mp4", {.index = index});
  decoder.skip_to(870);
  ASSERT_NE(decoder.next(), nullptr);
  EXPECT_LT(source.total, file.size() / 4);
}

TEST(Decoder, KeepsAVariableFrameRate) {
  EncoderOptions options = testing::small_video();
  options.time_base = {1, 1000};
  const std::vector<int64_t> times{0, 7, 40, 41, 300, 301, 1333, 1400};
  Encoder encoder(options);
  for (size_t i = 0; i < times.size(); ++i) {
    const Bytes rgb = testing::picture(96, 64, static_cast<int64_t>(i));
    auto frame = ff::new_frame();
    frame->width = 96, frame->height = 64, frame->format = AV_PIX_FMT_GRAY8;
    ASSERT_GE(av_frame_get_buffer(frame.get(), 0), 0);
    for (int y = 0; y < 64; ++y)
      std::memcpy(frame->data[0] + frame->linesize[0] * y, rgb.data() + y * 96, 96);
    encoder.write(*frame, times[i]);
  }
  const Decoded video = testing::decode(encoder.finish(1500));
  ASSERT_EQ(video.seconds.size(), times.size());
  for (size_t i = 0; i < times.size(); ++i)
    EXPECT_DOUBLE_EQ(video.seconds[i], static_cast<double>(times[i]) / 1000);
}

void put32(Bytes& bytes, size_t at, uint32_t value) {
  for (int i = 0; i < 4; ++i) bytes[at + i] = static_cast<uint8_t>(value >> (24 - 8 * i));
}

uint32_t get32(const Bytes& bytes, size_t at) {
  return uint32_t{bytes[at]} << 24 | bytes[at + 1] << 16 | bytes[at + 2] << 8 | bytes[at + 3];
}

size_t find_box(const Bytes& video, const char* type) {
  const auto at = std::search(video.begin(), video.end(), type, type + 4);
  EXPECT_NE(at, video.end());
  return static_cast<size_t>(at - video.begin());
}

// Moves the start of the first track's edit list five frames into the media, as lossless cutting tools do.
TEST(Decoder, AnEditListHidesFramesAndTheirIndices) {
  Bytes video = testing::make_video(testing::small_video(), 30);
  const Decoded whole = testing::decode(video);
  const size_t entry = find_box(video, "elst") + 12;  // after type, version and flags, entry count
  const uint32_t ticks_per_frame = get32(video, find_box(video, "mdhd") + 4 + 12) / 24;
  put32(video, entry + 4, get32(video, entry + 4) + 5 * ticks_per_frame);
  const Decoded cut = testing::decode(video);
  ASSERT_EQ(cut.luma.size(), 25u);
  EXPECT_EQ(cut.probe.video.frames, 25);
  EXPECT_DOUBLE_EQ(cut.seconds[0], 0);
  EXPECT_TRUE(std::equal(cut.luma.begin(), cut.luma.end(), whole.luma.begin() + 5));
}

TEST(Decoder, StopsAtMaxFramesAndSaysSo) {
  FileSource source(testing::data("bbb_D.mp4"));
  const Decoded video = testing::decode(source, "bbb_D.mp4", {.max_frames = 10});
  EXPECT_EQ(video.luma.size(), 10u);
  EXPECT_NE(video.damage.find("max_frames = 10"), std::string::npos) << video.damage;
}

TEST(Decoder, CountsFrames) {
  FileSource source(testing::data("calais_1906.ogv"));
  const Counted counted = count_frames(source, "calais_1906.ogv");
  EXPECT_EQ(counted.frames, 288);
  EXPECT_EQ(counted.damaged, "");
}

}  // namespace
}  // namespace kinora::video
