// Broken and malicious input: for any bytes, the decoder, the probe and the transcoder end with frames, an
// error, or both, and never crash. Under the address sanitizer this also shows that they stay within their
// memory.

#include <random>

#include "clips/transcode.hpp"
#include "media/audio_reader.hpp"
#include "media/media_testing.hpp"

namespace kinora::video {
namespace {

using testing::Bytes;

struct Outcome {
  int64_t frames = 0;
  std::string trouble;  // the error or the damage
};

Outcome decode_whatever(const Bytes& bytes) {
  MemorySource source{std::span(bytes)};
  Outcome outcome;
  try {
    Decoder decoder(source, "hostile", {.limits = {.max_pixels = 1 << 22}, .max_frames = 10'000});
    while (decoder.next() != nullptr) ++outcome.frames;
    outcome.trouble = decoder.damaged();
  } catch (const MediaError& error) {
    outcome.trouble = error.what();
  }
  return outcome;
}

void transcode_whatever(const Bytes& bytes) {
  MemorySource source{std::span(bytes)};
  TranscodeOptions options;
  options.preset = "ultrafast";
  options.max_height = 32;
  options.decoder.limits.max_pixels = 1 << 22;
  try {
    transcode_clips(source, "hostile", {{0, 4}, {6, 9}}, options,
                    [](size_t, const Clip& clip) { EXPECT_NE(clip.bytes.empty(), clip.error.empty()); });
  } catch (const MediaError&) {
  }
}

TEST(Hostile, TruncationIsNoticedAndWhatDecodesIsDelivered) {
  const std::pair<const char*, int64_t> videos[] = {
      {"film.mp4", 880}, {"film_excerpt.webm", 168}, {"city_cc0.mp4", 190}};
  for (const auto& [name, frames] : videos) {
    const Bytes whole = testing::load(name);
    int64_t last = 0;
    for (const double kept : {0.0001, 0.01, 0.1, 0.35, 0.7, 0.95, 0.9999}) {
      const Bytes part(whole.begin(),
                       whole.begin() + static_cast<int64_t>(kept * static_cast<double>(whole.size())));
      const Outcome outcome = decode_whatever(part);
      EXPECT_NE(outcome.trouble, "") << name << " cut to " << kept;
      EXPECT_GE(outcome.frames, last) << name << " cut to " << kept;
      EXPECT_LE(outcome.frames, frames);
      last = outcome.frames;
    }
  }
}

// Ogg declares no length: a file cut at the end of a page is a valid shorter video.
TEST(Hostile, TruncatedOggEnds) {
  const Bytes whole = testing::load("calais_1906.ogv");
  for (size_t i = 1; i < 8; ++i) {
    const Outcome outcome =
        decode_whatever({whole.begin(), whole.begin() + static_cast<int64_t>(i * whole.size() / 8)});
    EXPECT_LT(outcome.frames, 288);
  }
}

Bytes flipped(Bytes bytes, std::mt19937& random, int flips) {
  for (int i = 0; i < flips && !bytes.empty(); ++i)
    bytes[random() % bytes.size()] ^= uint8_t{1} << random() % 8;
  return bytes;
}

TEST(Hostile, FlippedBitsInARealVideo) {
  std::mt19937 random(7);
  for (const char* name : {"film_excerpt.webm", "bbb_D.mp4", "calais_1906.ogv"}) {
    const Bytes whole = testing::load(name);
    for (const int flips : {1, 30, 1000, 30'000}) {
      EXPECT_LE(decode_whatever(flipped(whole, random, flips)).frames, 1000)
          << name << ", " << flips << " flips";
    }
  }
}

// A video so small that most flips hit its headers, index or edit lists.
TEST(Hostile, FlippedBitsInHeaders) {
  EncoderOptions options = testing::small_video(32, 32);
  options.audio = {16000, 1, 0};
  const Bytes whole = testing::make_video(options, 10);
  std::mt19937 random(11);
  for (int round = 0; round < 150; ++round) {
    const Bytes bytes = flipped(whole, random, 1 + round % 12);
    decode_whatever(bytes);
    transcode_whatever(bytes);
  }
}

TEST(Hostile, NoiseBehindAMagicNumber) {
  std::mt19937 random(13);
  const std::string magics[] = {std::string("\0\0\0\x18"
                                            "ftypisom",
                                            12),
                                "\x1A\x45\xDF\xA3",
                                "OggS",
                                "RIFF",
                                "FLV\x01\x05",
                                "GIF89a",
                                "\x89PNG\r\n\x1a\n",
                                "\x47"};
  for (const std::string& magic : magics) {
    Bytes bytes = testing::text(magic);
    for (int i = 0; i < 20'000; ++i) bytes.push_back(static_cast<uint8_t>(random()));
    EXPECT_NE(decode_whatever(bytes).trouble, "");
    transcode_whatever(bytes);
  }
}

}  // namespace
}  // namespace kinora::video
