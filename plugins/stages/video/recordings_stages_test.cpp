// Recordings in every container give the same clips with and without video.remux: plain, joined and damaged ones.
#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>

#include <gmock/gmock.h>

#include "clips/transcode.hpp"
#include "media/audio_reader.hpp"
#include "stage_testing.hpp"

namespace kinora::video {
namespace {

using core::json;
using testing::Applied;
using testing::applied;
using testing::Bytes;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

class Recordings : public ::testing::Test {
 protected:
  Recordings() : folder_(fs::path(::testing::TempDir()) / ("recordings-" + std::to_string(getpid()))) {
    fs::create_directories(folder_);
  }
  ~Recordings() override { fs::remove_all(folder_); }

  void SetUp() override {
    if (made("none.mp4", "-f lavfi -i color=d=0.1").empty()) GTEST_SKIP() << "no ffmpeg";
  }

  fs::path made(const std::string& name, const std::string& arguments) const {
    const fs::path out = folder_ / name;
    const std::string command =
        "ffmpeg -nostdin -v error -y " + arguments + " '" + out.string() + "' && echo made";
    return testing::output_of(command).empty() ? fs::path() : out;
  }

  // Two seconds of a moving picture in colours of its own, with a tone.
  fs::path recording(const std::string& name, int number, const std::string& codecs) const {
    const std::string n = std::to_string(number);
    return made(name, "-f lavfi -i \"testsrc2=s=96x64:r=25:d=2,hue=h=" + n + "*80\" -f lavfi -i \"sine=f=" +
                          n + "*300:d=2\" -pix_fmt yuv420p " + codecs + " -shortest");
  }

  static Bytes bytes_of(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    return Bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  }

  fs::path written(const std::string& name, const Bytes& bytes) const {
    std::ofstream(folder_ / name, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    return folder_ / name;
  }

  fs::path joined(const std::string& name, const std::vector<fs::path>& parts) const {
    Bytes all;
    for (const auto& part : parts) {
      const Bytes bytes = bytes_of(part);
      all.insert(all.end(), bytes.begin(), bytes.end());
    }
    return written(name, all);
  }

  struct Cut {
    Applied clips;
    json facts;  // of the video
  };

  // The clips of a second each, with or without rewriting first.
  Cut cut(const fs::path& file, bool rewritten) const {
    Sample in("film");
    in.set("url", file.string());
    if (rewritten) {
      Applied out = applied("video.remux", json::object(), in, folder_.string());
      EXPECT_EQ(out.error, "");
      in = std::move(out.results.emitted.at(0));
    }
    const Applied shots = applied("shots", {{"detectors", {"content"}}, {"min_length", 5}}, in);
    EXPECT_EQ(shots.error, "");
    const json options{{"preset", "ultrafast"},
                       {"min_length", 0.2},
                       {"min_frames", 1},
                       {"edge_crop", 0.0},
                       {"max_length", 1.0}};
    Cut out{applied("clip.transcode", options, shots.results.emitted.at(0)), {}};
    if (const auto facts = in.text("json")) out.facts = json::parse(*facts);
    return out;
  }

  fs::path folder_;
};

std::vector<float> sound_of(const Sample& clip) {
  const auto bytes = clip.bytes("mp4");
  MemorySource source(*bytes);
  const auto reader = AudioReader::open(source, "clip");
  if (!reader) return {};
  std::vector<std::vector<float>> planes;
  reader->read(0, reader->rate() * 9 / 10, planes);
  return planes.at(0);
}

double loudness(const std::vector<float>& sound) {
  double sum = 0;
  for (const float s : sound) sum += s * s;
  return std::sqrt(sum / static_cast<double>(sound.size()));
}

// Crossings of zero a second, halved: the tone.
double tone(const std::vector<float>& sound, double seconds) {
  int crossings = 0;
  for (size_t i = 1; i < sound.size(); ++i) crossings += (sound[i - 1] < 0) != (sound[i] < 0);
  return crossings / 2.0 / seconds;
}

void expect_equal(const Applied& direct, const Applied& rewritten) {
  EXPECT_EQ(direct.error.empty(), rewritten.error.empty()) << direct.error << " / " << rewritten.error;
  ASSERT_EQ(direct.results.emitted.size(), rewritten.results.emitted.size());
  ASSERT_EQ(direct.results.failed.size(), rewritten.results.failed.size());
  for (size_t i = 0; i < direct.results.failed.size(); ++i)
    EXPECT_EQ(direct.results.failed[i].key, rewritten.results.failed[i].key);
  for (size_t i = 0; i < direct.results.emitted.size(); ++i) {
    const Sample &a = direct.results.emitted[i], &b = rewritten.results.emitted[i];
    SCOPED_TRACE(std::string(a.key()));
    EXPECT_EQ(a.key(), b.key());
    const json of_a = testing::facts_in(a), of_b = testing::facts_in(b);
    for (const char* fact : {"first_frame", "end_frame", "width", "height", "sample_aspect"})
      EXPECT_EQ(of_a.at(fact), of_b.at(fact)) << fact;
    for (const char* fact : {"start_s", "end_s", "duration_s"})
      EXPECT_NEAR(of_a.at(fact).get<double>(), of_b.at(fact).get<double>(), 2e-6) << fact;
    const auto pictures = [](const Sample& clip) {
      const auto bytes = *clip.bytes("mp4");
      return testing::decode(Bytes(bytes.begin(), bytes.end()));
    };
    const auto x = pictures(a), y = pictures(b);
    ASSERT_EQ(x.luma.size(), y.luma.size());
    for (size_t f = 0; f < x.luma.size(); ++f) {
      EXPECT_NEAR(x.seconds[f], y.seconds[f], 1e-4) << f;
      EXPECT_GT(testing::psnr(x.luma[f], y.luma[f]), 40) << f;
    }
    const auto heard = sound_of(a), heard_too = sound_of(b);
    ASSERT_EQ(heard.size(), heard_too.size());
    if (!heard.empty()) {
      EXPECT_NEAR(loudness(heard), loudness(heard_too), 0.01);
    }
  }
}

const std::pair<const char*, const char*> kContainers[] = {
    {"a.ts", "-c:v libx264 -preset veryfast -bf 2 -g 25 -c:a aac"},
    {"b.ts", "-c:v mpeg2video -q:v 3 -bf 2 -g 12 -c:a mp2"},
    {"c.mpg", "-c:v mpeg2video -q:v 3 -bf 2 -g 12 -c:a mp2"},
    {"d.avi", "-c:v mpeg4 -q:v 3 -bf 2 -c:a mp3"},
    {"e.avi", "-c:v mjpeg -q:v 3 -c:a pcm_s16le"},
    {"f.avi", "-c:v libx264 -preset veryfast -bf 2 -g 25 -c:a mp3"},
    {"g.avi", "-r 24 -c:v wmv2 -q:v 3 -c:a mp3"},
    {"h.flv", "-c:v libx264 -preset veryfast -bf 2 -g 25 -c:a aac -ar 44100"},
    {"i.flv", "-c:v flv -q:v 3 -c:a mp3 -ar 44100"},
    {"j.mkv", "-c:v libx264 -preset veryfast -bf 2 -g 25 -c:a aac"},
    {"k.ts", "-c:v libx265 -preset ultrafast -x265-params log-level=none -c:a ac3"},
};

TEST_F(Recordings, GiveTheSameClipsRewrittenOrNot) {
  for (const auto& [name, codecs] : kContainers) {
    SCOPED_TRACE(name);
    const fs::path file = recording(name, 1, codecs);
    ASSERT_FALSE(file.empty());
    const Cut direct = cut(file, false), rewritten = cut(file, true);
    EXPECT_EQ(direct.clips.results.emitted.size(), 2u);
    EXPECT_EQ(direct.clips.error, "");
    expect_equal(direct.clips, rewritten.clips);
    // Matroska cannot hold 24ths of a second; FFmpeg does not know when H.264 in AVI is shown.
    const bool stays = std::set<std::string>{"f.avi", "g.avi", "j.mkv"}.contains(name);
    EXPECT_EQ(rewritten.facts.contains("remuxed"), !stays) << rewritten.facts;
  }
}

// The second clock begins where the first did, and the counter of packets leaps where nothing is missing.
TEST_F(Recordings, JoinedKeepTheirTimesAndSound) {
  for (const auto& [name, codecs] : {kContainers[0], kContainers[1], kContainers[2]}) {
    SCOPED_TRACE(name);
    const std::string ending = fs::path(name).extension();
    const fs::path file = joined(
        "joined" + ending, {recording("one" + ending, 1, codecs), recording("two" + ending, 2, codecs)});
    const Cut direct = cut(file, false), rewritten = cut(file, true);
    EXPECT_EQ(direct.clips.error, "");
    const auto& clips = direct.clips.results.emitted;
    ASSERT_EQ(clips.size(), 4u);
    for (size_t i = 0; i < 4; ++i) {
      SCOPED_TRACE(i);
      const json facts = testing::facts_in(clips[i]);
      EXPECT_EQ(facts.at("frames"), 25);
      EXPECT_NEAR(facts.at("start_s").get<double>(), static_cast<double>(i), 0.05);
      EXPECT_NEAR(facts.at("duration_s").get<double>(), 1, 0.05);
      const auto sound = sound_of(clips[i]);
      EXPECT_NEAR(tone(sound, 0.9), i < 2 ? 300 : 600, 30);
    }
    expect_equal(direct.clips, rewritten.clips);
  }
}

struct Part {
  const char *size, *filter, *codec;
};

// Parts of a second that differ in one property each: every part is a clip of its own, as it is.
TEST_F(Recordings, WhatChangesTheFormOfThePicturesBeginsAClip) {
  const char* kH264 = "-c:v libx264 -preset veryfast -g 25";
  const std::vector<std::pair<std::string, std::vector<Part>>> cases{
      {"size", {{"96x64", "null", kH264}, {"48x32", "null", kH264}, {"64x96", "null", kH264}}},
      {"pixel", {{"96x64", "setsar=1", kH264}, {"96x64", "setsar=4/3", kH264}}},
      {"dvd",
       {{"96x64", "setsar=1", "-c:v mpeg2video -q:v 3"}, {"96x64", "setdar=16/9", "-c:v mpeg2video -q:v 3"}}},
      {"matrix",
       {{"96x64", "scale=out_color_matrix=bt709", "-c:v libx264 -preset veryfast -colorspace bt709"},
        {"96x64", "null", "-c:v libx264 -preset veryfast -colorspace smpte170m"}}},
      {"range",
       {{"96x64", "null", kH264},
        {"96x64", "scale=out_range=full", "-c:v libx264 -preset veryfast -color_range pc"}}},
      {"depth",
       {{"96x64", "null", kH264},
        {"96x64", "format=yuv420p10le", "-c:v libx264 -preset veryfast -pix_fmt yuv420p10le"}}}};
  for (const auto& [name, parts] : cases) {
    SCOPED_TRACE(name);
    std::vector<fs::path> files;
    std::vector<testing::Decoded> expected;
    for (size_t i = 0; i < parts.size(); ++i) {
      const std::string format = name == "depth" ? " " : " -pix_fmt yuv420p ";
      files.push_back(made(name + std::to_string(i) + ".ts", std::string("-f lavfi -i \"testsrc2=s=") +
                                                                 parts[i].size + ":r=25:d=1,format=yuv420p," +
                                                                 parts[i].filter + "\"" + format +
                                                                 parts[i].codec));
      ASSERT_FALSE(files.back().empty());
      FileSource source(files.back());
      expected.push_back(testing::decode(source, "part"));
    }
    const fs::path file = joined(name + ".ts", files);
    for (const bool rewritten : {false, true}) {
      SCOPED_TRACE(rewritten);
      const Cut found = cut(file, rewritten);
      EXPECT_EQ(found.clips.error, "");
      const auto& clips = found.clips.results.emitted;
      ASSERT_EQ(clips.size(), parts.size());
      for (size_t i = 0; i < clips.size(); ++i) {
        SCOPED_TRACE(i);
        const json facts = testing::facts_in(clips[i]);
        const VideoInfo& video = expected[i].probe.video;
        EXPECT_EQ(facts.at("width"), video.width);
        EXPECT_EQ(facts.at("height"), video.height);
        EXPECT_NEAR(facts.at("sample_aspect").get<double>(), video.sample_aspect.value(), 1e-3);
        const auto bytes = *clips[i].bytes("mp4");
        const auto own = testing::decode(Bytes(bytes.begin(), bytes.end()));
        // FFmpeg's decoder of MPEG-2 loses the picture before a new shape of pixels.
        ASSERT_NEAR(static_cast<double>(own.luma.size()), static_cast<double>(expected[i].luma.size()),
                    name == "dvd" ? 1 : 0);
        if (name != "range" && name != "depth" && name != "dvd") {
          EXPECT_GT(testing::psnr(own.luma[12], expected[i].luma[12]), 30);
        }
      }
    }
    Sample in("film");
    in.set("url", file.string());
    const Applied at_once =
        applied("video.clips",
                {{"min_length", 0.2}, {"min_frames", 1}, {"edge_crop", 0.0}, {"detectors", {"fixed"}}}, in);
    EXPECT_EQ(at_once.results.emitted.size(), parts.size());
    const Applied whole =
        applied("clip.transcode", {{"min_length", 0.2}, {"min_frames", 1}, {"edge_crop", 0.0}}, in);
    EXPECT_EQ(whole.results.emitted.size(), parts.size()) << "without shots";
    std::vector<Clip> forced;
    FileSource source(file);
    transcode_clips(source, "film", {{0, 40}}, {},
                    [&](size_t, Clip clip) { forced.push_back(std::move(clip)); });
    EXPECT_THAT(forced.at(0).error, ::testing::ContainsRegex("changes at frame 2[45] from [0-9]+ x [0-9]+ "));
  }
}

// Three packets of one picture of the second clip are lost.
TEST_F(Recordings, DamageIsFoundRewrittenOrNot) {
  Bytes bytes =
      bytes_of(recording("whole.ts", 1, "-c:v libx264 -preset veryfast -bf 2 -g 25 -b:v 2M -c:a aac"));
  constexpr size_t kPacket = 188;
  size_t at = bytes.size() / kPacket * 3 / 5;
  const auto pid = [&](size_t packet) {
    return (bytes[packet * kPacket + 1] & 0x1F) << 8 | bytes[packet * kPacket + 2];
  };
  const auto starts = [&](size_t packet) { return (bytes[packet * kPacket + 1] & 0x40) != 0; };
  const auto in_one_picture = [&](size_t first) {
    for (size_t i = first; i < first + 4; ++i)
      if (pid(i) != 0x100 || starts(i)) return false;
    return true;
  };
  while (!in_one_picture(at)) ++at;
  bytes.erase(bytes.begin() + static_cast<std::ptrdiff_t>(at * kPacket),
              bytes.begin() + static_cast<std::ptrdiff_t>((at + 3) * kPacket));
  const fs::path file = written("lost.ts", bytes);
  const Cut direct = cut(file, false), rewritten = cut(file, true);
  EXPECT_THAT(direct.clips.error, HasSubstr("a packet is incomplete"));
  ASSERT_EQ(direct.clips.results.failed.size(), 1u);
  EXPECT_EQ(direct.clips.results.failed[0].key, "film-0001");
  EXPECT_EQ(direct.clips.results.emitted.size(), 1u);
  expect_equal(direct.clips, rewritten.clips);
  EXPECT_THAT(rewritten.facts.at("remux_failed").get<std::string>(), HasSubstr("a packet is incomplete"));
}

}  // namespace
}  // namespace kinora::video
