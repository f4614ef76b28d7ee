#include "media/audio_reader.hpp"

#include "media/media_testing.hpp"

namespace kinora::video {
namespace {

using testing::Bytes;

using Planes = std::vector<std::vector<float>>;

Planes read_all(ByteSource& source, int64_t from, int64_t count, int64_t step) {
  const auto reader = AudioReader::open(source, "film");
  EXPECT_NE(reader, nullptr);
  Planes all, part;
  for (int64_t at = from; at < from + count; at += step) {
    reader->read(at, std::min(step, from + count - at), part);
    all.resize(part.size());
    for (size_t c = 0; c < part.size(); ++c) all[c].insert(all[c].end(), part[c].begin(), part[c].end());
  }
  return all;
}

TEST(AudioReader, PiecesEqualTheWhole) {
  FileSource source(testing::data("film_excerpt.webm"));
  const Planes whole = read_all(source, 0, 100'000, 100'000);
  EXPECT_EQ(read_all(source, 0, 100'000, 997), whole);
  const Planes later = read_all(source, 30'000, 70'000, 8192);
  EXPECT_TRUE(std::equal(later[0].begin(), later[0].end(), whole[0].begin() + 30'000));
}

TEST(AudioReader, IsSilentWhereTheVideoIs) {
  FileSource source(testing::data("film.mp4"));
  const Planes around = read_all(source, -5000, 5000, 5000);
  EXPECT_EQ(around[0], std::vector<float>(5000, 0.0F));
  const Planes after = read_all(source, 40 * 44100, 5000, 5000);
  EXPECT_EQ(after[0], std::vector<float>(5000, 0.0F));
}

TEST(AudioReader, VideoWithoutSoundHasNoReader) {
  FileSource source(testing::data("bbb_A.mp4"));
  EXPECT_EQ(AudioReader::open(source, "bbb_A.mp4"), nullptr);
}

// Encoded sound starts with its frames: AAC's priming is not heard and shifts nothing.
TEST(AudioReader, EncodedSoundStaysInPlace) {
  for (const AudioFormat format :
       {AudioFormat{44100, 1, 0}, {48000, 2, 0}, {16000, 1, 0}, {96000, 2, 0}, {22000, 1, 0}}) {
    SCOPED_TRACE(format.rate);
    EncoderOptions options = testing::small_video();
    options.audio = format;
    options.audio.bit_rate = 160'000;
    const Bytes video = testing::make_video(options, 24);
    MemorySource source{std::span(video)};
    const auto reader = AudioReader::open(source, "made");
    ASSERT_NE(reader, nullptr);
    const int rate = reader->rate();
    EXPECT_EQ(reader->channels(), format.channels);
    Planes planes;
    reader->read(0, rate, planes);
    // Each click begins at its frame's start: quiet in the 5 ms before, loud in the 2.5 ms after.
    const int short_time = rate / 400;
    for (int64_t frame = 1; frame < 24; ++frame) {
      double before = 0, after = 0;
      for (int64_t n = 1; n < short_time; ++n) {
        before += std::abs(planes[0][frame * rate / 24 - short_time - n]);
        after += std::abs(planes[0][frame * rate / 24 + n]);
      }
      EXPECT_GT(after, 3 * before) << "click " << frame;
    }
  }
}

}  // namespace
}  // namespace kinora::video
