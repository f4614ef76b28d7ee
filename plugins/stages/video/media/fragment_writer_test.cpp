// The bytes of growing videos: their boxes by a reader of the test's own, their frames by FFmpeg's demuxer and decoder.
#include "media/fragment_writer.hpp"

#include <filesystem>
#include <fstream>
#include <map>
#include <numeric>
#include <unistd.h>

#include "media/frame_encoder.hpp"
#include "media/input.hpp"
#include "media/media_testing.hpp"
#include "media/mp4_writer.hpp"

namespace kinora::video {
namespace {

using testing::Bytes;
using testing::error_of;
using Kind = FragmentWriter::Kind;

uint64_t number(std::span<const uint8_t> bytes, size_t at, size_t length) {
  uint64_t value = 0;
  for (size_t i = 0; i < length; ++i) value = value << 8 | bytes[at + i];
  return value;
}

// A box of ISO/IEC 14496-12: its content without size and type.
struct Box {
  std::string type;
  std::span<const uint8_t> content;
};

std::vector<Box> boxes(std::span<const uint8_t> bytes) {
  std::vector<Box> out;
  while (bytes.size() >= 8) {
    const uint64_t size = number(bytes, 0, 4);
    if (size < 8 || size > bytes.size()) {
      ADD_FAILURE() << "a box of " << size << " bytes, where " << bytes.size() << " are left";
      return out;
    }
    out.push_back({std::string(bytes.begin() + 4, bytes.begin() + 8), bytes.subspan(8, size - 8)});
    bytes = bytes.subspan(size);
  }
  EXPECT_TRUE(bytes.empty()) << bytes.size() << " bytes behind the last box";
  return out;
}

std::string types(std::span<const uint8_t> bytes) {
  std::string out;
  for (const Box& box : boxes(bytes)) out += (out.empty() ? "" : " ") + box.type;
  return out;
}

// The content of the only box at this path: inside("moof/traf/tfdt").
std::span<const uint8_t> inside(std::span<const uint8_t> bytes, std::string path) {
  for (path += "/"; !path.empty(); path.erase(0, path.find('/') + 1)) {
    const std::string type = path.substr(0, path.find('/'));
    std::vector<Box> found;
    for (const Box& box : boxes(bytes))
      if (box.type == type) found.push_back(box);
    if (found.size() != 1) {
      ADD_FAILURE() << found.size() << " boxes " << type;
      return {};
    }
    bytes = found[0].content;
  }
  return bytes;
}

// What a fragment's moof says of its samples. [8.8.7, 8.8.8, 8.8.12]
struct Fragment {
  uint64_t decode_time = 0, samples = 0, length = 0;  // times in ticks
  bool is_relative_to_moof = false, has_reordered = false;
};

Fragment fragment_of(std::span<const uint8_t> bytes) {
  Fragment out;
  const auto tfhd = inside(bytes, "moof/traf/tfhd"), tfdt = inside(bytes, "moof/traf/tfdt"),
             trun = inside(bytes, "moof/traf/trun");
  if (tfhd.size() < 8 || tfdt.size() < 8 || trun.size() < 8) return out;
  const uint64_t defaults = number(tfhd, 1, 3), flags = number(trun, 1, 3);
  out.is_relative_to_moof = (defaults & 0x020000) != 0 && (defaults & 1) == 0;
  uint64_t default_duration = 0;
  if ((defaults & 8) != 0) default_duration = number(tfhd, 8 + ((defaults & 2) != 0 ? 4 : 0), 4);
  out.decode_time = number(tfdt, 4, tfdt[0] == 1 ? 8 : 4);
  out.samples = number(trun, 4, 4);
  out.has_reordered = (flags & 0x800) != 0;  // offsets between decoding and showing
  size_t at = 8 + ((flags & 1) != 0 ? 4 : 0) + ((flags & 4) != 0 ? 4 : 0);
  for (uint64_t i = 0; i < out.samples; ++i) {
    out.length += (flags & 0x100) != 0 ? number(trun, at, 4) : default_duration;
    for (const uint64_t field : {0x100, 0x200, 0x400, 0x800}) at += (flags & field) != 0 ? 4 : 0;
  }
  EXPECT_EQ(at, trun.size());
  return out;
}

struct Written {
  Bytes init, all;
  std::vector<Bytes> fragments;
  std::string mime;

  // The file that a run leaves that ends behind this many fragments.
  Bytes prefix(size_t count) const {
    Bytes out = init;
    for (size_t i = 0; i < count; ++i) out.insert(out.end(), fragments[i].begin(), fragments[i].end());
    return out;
  }
};

EncoderOptions options_of(int width, int height, Rational fps = {24, 1}) {
  EncoderOptions options = testing::small_video(width, height);
  options.fps = fps;
  options.preset = "ultrafast";
  options.metadata = {{"comment", "begun"}};
  return options;
}

Bytes chunk(const EncoderOptions& options, int64_t first, int64_t count) {
  Bytes out;
  for (int64_t i = first; i < first + count; ++i) {
    const Bytes one = testing::picture(options.width, options.height, i);
    out.insert(out.end(), one.begin(), one.end());
  }
  return out;
}

Written written(const EncoderOptions& options, const std::vector<int64_t>& counts) {
  Written out;
  FragmentWriter writer(options, [&](std::span<const uint8_t> bytes, Kind kind) {
    const Bytes copy(bytes.begin(), bytes.end());
    if (kind == Kind::init) {
      EXPECT_TRUE(out.all.empty()) << "the init segment comes first and once";
      out.init = copy;
    } else {
      out.fragments.push_back(copy);
    }
    out.all.insert(out.all.end(), bytes.begin(), bytes.end());
  });
  int64_t first = 0;
  for (const int64_t count : counts) {
    writer.add(chunk(options, first, count).data(), count);
    first += count;
  }
  const size_t before = out.all.size();
  writer.finish();
  EXPECT_EQ(out.all.size(), before);
  out.mime = writer.mime();
  return out;
}

// The same frames through the same encoder in one ordinary file, with key frames at the same places.
Bytes ordinary(EncoderOptions options, const std::vector<int64_t>& counts) {
  options.low_latency = true;
  options.key_interval = 1 << 30;
  Mp4Writer writer(options.metadata);
  AVStream* stream = nullptr;
  FrameEncoder encoder(options,
                       [&](AVPacket& packet) { writer.write(packet, *stream, encoder.time_base()); });
  stream = writer.add(encoder.context());
  writer.start(1000);
  int64_t frame = 0;
  for (const int64_t count : counts) {
    encoder.force_key();
    for (int64_t i = 0; i < count; ++i)
      encoder.write_rgb(testing::picture(options.width, options.height, frame++).data());
  }
  encoder.finish(-1);
  return writer.finish();
}

// All planes of all frames.
std::vector<Bytes> pictures(const Bytes& video) {
  MemorySource source{std::span(video)};
  Decoder decoder(source, "made.mp4");
  std::vector<Bytes> out;
  while (const Frame* frame = decoder.next()) out.push_back(testing::planes(*frame->picture));
  EXPECT_EQ(decoder.damaged(), "");
  return out;
}

struct Packet {
  Bytes bytes;
  double shown = 0, decoded = 0;  // seconds
  bool is_key = false;
  friend bool operator==(const Packet&, const Packet&) = default;
};

std::vector<Packet> packets(const Bytes& video) {
  MemorySource source{std::span(video)};
  Input input(source, "made.mp4", Limits{});
  std::vector<Packet> out;
  const auto packet = ff::new_packet();
  while (input.read(*packet) >= 0) {
    const double tick = av_q2d(input.video()->time_base);
    out.push_back({Bytes(packet->data, packet->data + packet->size), static_cast<double>(packet->pts) * tick,
                   static_cast<double>(packet->dts) * tick, (packet->flags & AV_PKT_FLAG_KEY) != 0});
    av_packet_unref(packet.get());
  }
  return out;
}

const std::vector<int64_t> kCounts = {5, 8, 1, 8, 3};
const int64_t kFrames = std::accumulate(kCounts.begin(), kCounts.end(), int64_t{0});

TEST(FragmentWriter, GivesTheInitSegmentAndThenWholeFragments) {
  const Written video = written(options_of(96, 64), kCounts);
  EXPECT_EQ(types(video.init), "ftyp moov");
  EXPECT_EQ(types(inside(video.init, "moov/mvex")), "trex");
  EXPECT_EQ(number(inside(video.init, "moov/trak/mdia/minf/stbl/stsz"), 8, 4), 0u)
      << "samples in the init segment";
  ASSERT_EQ(video.fragments.size(), kCounts.size());
  for (const Bytes& fragment : video.fragments) EXPECT_EQ(types(fragment), "moof mdat");
}

TEST(FragmentWriter, FragmentsFollowEachOtherInTimeOfWholeTicks) {
  for (const Rational& fps : {Rational{24, 1}, {24000, 1000}, {30000, 1001}, {16, 1}, {12345, 1000}}) {
    const Written video = written(options_of(64, 48, fps), kCounts);
    const auto header = inside(video.init, "moov/trak/mdia/mdhd");
    ASSERT_GE(header.size(), 16u);
    const uint64_t timescale = number(header, header[0] == 1 ? 20 : 12, 4);
    const uint64_t ticks = timescale * static_cast<uint64_t>(fps.den);
    ASSERT_EQ(ticks % static_cast<uint64_t>(fps.num), 0u)
        << timescale << " ticks a second at " << fps.value();
    uint64_t time = 0;
    for (size_t i = 0; i < kCounts.size(); ++i) {
      const Fragment fragment = fragment_of(video.fragments[i]);
      EXPECT_EQ(fragment.decode_time, time) << i;
      EXPECT_EQ(fragment.samples, static_cast<uint64_t>(kCounts[i]));
      EXPECT_EQ(fragment.length, fragment.samples * (ticks / static_cast<uint64_t>(fps.num)));
      EXPECT_TRUE(fragment.is_relative_to_moof);
      time += fragment.length;
    }
  }
}

TEST(FragmentWriter, HasTheFramesOfOneOrdinaryFile) {
  for (const char* preset : {"ultrafast", "medium"}) {
    EncoderOptions options = options_of(96, 64);
    options.preset = preset;
    const auto grown = pictures(written(options, kCounts).all), whole = pictures(ordinary(options, kCounts));
    EXPECT_EQ(grown.size(), static_cast<size_t>(kFrames));
    EXPECT_EQ(grown, whole) << preset;
  }
}

TEST(FragmentWriter, EveryPrefixOfFragmentsIsAFileOfItsFrames) {
  const Written video = written(options_of(96, 64), kCounts);
  const auto all = pictures(video.all);
  size_t frames = 0;
  for (size_t count = 1; count <= kCounts.size(); ++count) {
    frames += static_cast<size_t>(kCounts[count - 1]);
    ASSERT_LE(frames, all.size());
    const auto some = pictures(video.prefix(count));
    EXPECT_EQ(some, (std::vector<Bytes>(all.begin(), all.begin() + static_cast<ptrdiff_t>(frames))));
  }
}

TEST(FragmentWriter, BeginsFragmentsAndNothingElseWithKeyFrames) {
  for (const char* preset : {"ultrafast", "medium"}) {
    EncoderOptions options = options_of(96, 64);
    options.preset = preset;
    const Written video = written(options, kCounts);
    for (const Bytes& fragment : video.fragments) EXPECT_FALSE(fragment_of(fragment).has_reordered);
    std::vector<bool> keys, expected;
    for (const Packet& packet : packets(video.all)) {
      keys.push_back(packet.is_key);
      EXPECT_EQ(packet.shown, packet.decoded) << "no B frames";
    }
    for (const int64_t count : kCounts)
      for (int64_t i = 0; i < count; ++i) expected.push_back(i == 0);
    EXPECT_EQ(keys, expected) << preset;
  }
}

// Another picture in each frame would make x264 begin a group of pictures by itself.
TEST(FragmentWriter, CutsInThePictureBeginNoGroup) {
  const EncoderOptions options = options_of(64, 48);
  Bytes all;
  FragmentWriter writer(options, [&](std::span<const uint8_t> bytes, Kind) {
    all.insert(all.end(), bytes.begin(), bytes.end());
  });
  Bytes frames;
  for (int i = 0; i < 8; ++i)
    frames.insert(frames.end(), size_t{64} * 48 * 3, static_cast<uint8_t>(i % 2 == 0 ? 250 : 5));
  writer.add(frames.data(), 8);
  writer.finish();
  size_t keys = 0;
  for (const Packet& packet : packets(all)) keys += packet.is_key ? 1 : 0;
  EXPECT_EQ(keys, 1u);
}

TEST(FragmentWriter, OddSidesLoseOneLine) {
  const EncoderOptions options = options_of(97, 65);
  const std::vector<int64_t> counts = {3, 4};
  const Bytes video = written(options, counts).all;
  const testing::Decoded decoded = testing::decode(video);
  EXPECT_EQ(decoded.probe.video.width, 96);
  EXPECT_EQ(decoded.probe.video.height, 64);
  EXPECT_EQ(pictures(video), pictures(ordinary(options, counts)));
}

TEST(FragmentWriter, SaysItsCodec) {
  const auto of = [](int width, int height) { return written(options_of(width, height), {1}).mime; };
  EXPECT_EQ(of(640, 352), "video/mp4; codecs=\"avc1.42c01e\"");
  EXPECT_EQ(of(1280, 704), "video/mp4; codecs=\"avc1.42c01f\"");
  const Written video = written(options_of(96, 64), {1});  // as its box avcC says
  const std::string_view init(reinterpret_cast<const char*>(video.init.data()), video.init.size());
  const size_t at = init.find("avcC");
  ASSERT_NE(at, init.npos);
  char expected[64];
  std::snprintf(expected, sizeof expected, "video/mp4; codecs=\"avc1.%06x\"",
                static_cast<unsigned>(number(video.init, at + 5, 3)));
  EXPECT_EQ(video.mime, expected);
}

TEST(FragmentWriter, ALongCommentIsInTheInitSegment) {
  EncoderOptions options = options_of(64, 48);
  options.metadata = {{"comment", std::string(200'000, 'c')}};  // more than FFmpeg's buffer
  const Written video = written(options, {2, 2});
  EXPECT_EQ(types(video.init), "ftyp moov");
  EXPECT_EQ(pictures(video.all).size(), 4u);
  EXPECT_GT(video.init.size(), 200'000u);
}

TEST(FragmentWriter, RefusesWhatItCannotWrite) {
  const auto none = [](std::span<const uint8_t>, Kind) {};
  EXPECT_NE(error_of([&] { FragmentWriter(options_of(64, 48), none).finish(); }).find("no frames"),
            std::string::npos);
  EXPECT_NE(error_of([&] { FragmentWriter(options_of(64, 48), none).add(nullptr, 0); }).find("at least one"),
            std::string::npos);
  EncoderOptions sound = options_of(64, 48);
  sound.audio = {44100, 2, 0};
  EXPECT_NE(error_of([&] { FragmentWriter(sound, none); }).find("sound"), std::string::npos);
  EXPECT_NE(error_of([&] {
              FragmentWriter writer(options_of(64, 48), none);
              writer.add(chunk(options_of(64, 48), 0, 1).data(), 1);
              writer.finish();
              writer.add(chunk(options_of(64, 48), 1, 1).data(), 1);
            }).find("behind the end"),
            std::string::npos);
}

Bytes remuxed(const Bytes& video, const std::string& comment) {
  MemorySource source{std::span(video)};
  return remux_fragments(source, "made.mp4", {{"comment", comment}});
}

TEST(RemuxFragments, KeepsThePacketsAndHasItsIndexInFront) {
  for (const Rational& fps : {Rational{24, 1}, {30000, 1001}}) {
    const Written video = written(options_of(96, 64, fps), kCounts);
    const Bytes whole = remuxed(video.all, "all of it");
    const std::string found = types(whole);
    ASSERT_NE(found.find("moov"), found.npos) << found;
    EXPECT_LT(found.find("moov"), found.find("mdat")) << found;
    EXPECT_EQ(found.find("moof"), found.npos) << found;
    EXPECT_EQ(packets(whole), packets(video.all));
    EXPECT_EQ(packets(whole).size(), static_cast<size_t>(kFrames));
    const testing::Decoded decoded = testing::decode(whole);
    EXPECT_EQ(decoded.probe.video.fps, fps);
    EXPECT_NEAR(decoded.probe.duration_s, static_cast<double>(kFrames) / fps.value(), 1e-3);
    std::map<std::string, std::string> metadata(decoded.probe.metadata.begin(), decoded.probe.metadata.end());
    EXPECT_EQ(metadata["comment"], "all of it");
    EXPECT_EQ(pictures(whole), pictures(video.all));
  }
}

TEST(RemuxFragments, WritesTheSameBytesToAFile) {
  const Written video = written(options_of(96, 64), kCounts);
  const auto file = std::filesystem::temp_directory_path() / ("kinora-remux-" + std::to_string(getpid()));
  for (const std::string& comment : {std::string("short"), std::string(300'000, 'x')}) {
    MemorySource source{std::span(video.all)};
    remux_fragments(source, "made.mp4", {{"comment", comment}}, file);
    std::ifstream in(file, std::ios::binary);
    const Bytes whole{std::istreambuf_iterator<char>(in), {}};
    EXPECT_TRUE(whole == remuxed(video.all, comment)) << whole.size();
  }
  std::filesystem::remove(file);
  MemorySource source{std::span(video.all)};
  EXPECT_NE(error_of([&] { remux_fragments(source, "made.mp4", {}, file / "in" / "none"); }).find("opening"),
            std::string::npos);
}

TEST(RemuxFragments, TakesWhatAKilledRunLeaves) {
  const Written video = written(options_of(96, 64), kCounts);
  const Bytes some = remuxed(video.prefix(2), "some");
  EXPECT_EQ(pictures(some).size(), static_cast<size_t>(kCounts[0] + kCounts[1]));
  Bytes cut = video.prefix(2);
  cut.resize(cut.size() - 10);
  EXPECT_NE(error_of([&] { remuxed(cut, "cut"); }).find("cut off"), std::string::npos);
  EXPECT_NE(error_of([&] { remuxed(testing::text("not a video at all"), ""); }).find("not a video"),
            std::string::npos);
}

}  // namespace
}  // namespace kinora::video
