// What ffprobe says of files in several containers and codecs holds for their clips: rates, variable ones
// too, times that do not begin at 0, edit lists; damage in the middle is found, and pictures that state how
// they are turned are.
#include <array>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <gmock/gmock.h>

#include "stage_testing.hpp"

namespace kinora::video {
namespace {

namespace fs = std::filesystem;

class Properties : public ::testing::Test {
 protected:
  Properties() : folder_(fs::path(::testing::TempDir()) / ("properties-" + std::to_string(getpid()))) {
    fs::create_directories(folder_);
  }
  ~Properties() override { fs::remove_all(folder_); }
  void SetUp() override {
    if (made("none.mp4", "-f lavfi -i color=d=0.1").empty()) GTEST_SKIP() << "no ffmpeg";
  }
  // Runs ffmpeg; empty if it fails.
  fs::path made(const std::string& name, const std::string& arguments) const {
    const fs::path out = folder_ / name;
    const std::string done =
        "ffmpeg -nostdin -v error -y " + arguments + " '" + out.string() + "' && echo made";
    return testing::output_of(done).empty() ? fs::path() : out;
  }
  fs::path written(const std::string& name, std::string_view bytes) const {
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
    return folder_ / name;
  }
  // Seconds of the shown frames since the first one.
  static std::vector<double> times_by_ffprobe(const fs::path& file) {
    const auto text = testing::output_of(
        "ffprobe -v error -select_streams v:0 -show_entries frame=best_effort_timestamp_time -of csv=p=0 '" +
        file.string() + "' | tr -d ','");
    std::istringstream in(std::string(text.begin(), text.end()));
    std::vector<double> out;
    for (double time = 0; in >> time;) out.push_back(out.empty() ? time : time - out.front());
    if (!out.empty()) out.front() = 0;
    return out;
  }
  static Sample video_of(const fs::path& file) {
    Sample out("film");
    out.set("url", file.string());
    return out;
  }
  fs::path folder_;
};

constexpr const char* kReordered = "-c:v libx264 -preset veryfast -bf 2 -g 12";
constexpr const char* kVp9 = "-c:v libvpx-vp9 -deadline realtime -cpu-used 8";
constexpr const char* kHevc = "-c:v libx265 -preset ultrafast -x265-params log-level=none";
constexpr const char* kAv1 = "-c:v libaom-av1 -usage realtime -cpu-used 8";
// Three of seven frames.
constexpr const char* kVariable = R"( -vf "select='lt(mod(n\,7)\,3)'" -vsync vfr)";
constexpr const char* kLate = " -output_ts_offset 5";

struct Row {
  const char *file, *rate, *codec, *more;
  int frames;
};

const Row kRows[] = {{"a.mp4", "30000/1001", kHevc, " -tag:v hvc1", 30},
                     {"b.mkv", "24000/1001", kHevc, " -pix_fmt yuv420p10le", 24},
                     {"c.webm", "24000/1001", kVp9, "", 24},
                     {"d.mp4", "25", kVp9, " -pix_fmt yuv420p10le -profile:v 2", 25},
                     {"e.mp4", "25", kAv1, "", 25},
                     {"f.mkv", "60000/1001", kAv1, "", 60},
                     {"g.webm", "30", "-c:v libvpx -deadline realtime", "", 30},
                     {"h.mov", "24", "-c:v prores_ks -profile:v 1", " -pix_fmt yuv422p10le", 24},
                     {"i.mkv", "50", "-c:v ffv1 -level 3", "", 50},
                     {"j.avi", "60000/1001", "-c:v ffv1", "", 60},
                     {"k.mp4", "25", kReordered, kVariable, 12},
                     {"l.mkv", "25", kReordered, kVariable, 12},
                     {"m.webm", "25", kVp9, kVariable, 12},
                     {"n.ts", "25", kReordered, kVariable, 12},
                     {"o.mp4", "30000/1001", kReordered, kLate, 30},
                     {"p.mov", "25", kReordered, kLate, 25},
                     {"q.mkv", "25", kReordered, kLate, 25},
                     {"r.webm", "25", kVp9, kLate, 25},
                     {"s.ts", "30000/1001", kReordered, kLate, 30}};

TEST_F(Properties, OfAClipAreThoseOfTheVideo) {
  std::vector<std::pair<fs::path, size_t>> files;
  for (const Row& row : kRows) {
    const fs::path file =
        made(row.file,
             std::string("-f lavfi -i testsrc2=s=96x64:r=") + row.rate + ":d=1 " + row.codec + row.more +
                 (std::string(row.more).find("pix_fmt") == std::string::npos ? " -pix_fmt yuv420p" : ""));
    ASSERT_FALSE(file.empty()) << row.file << " " << row.codec;
    files.emplace_back(file, static_cast<size_t>(row.frames));
  }
  // A copy from within a group of pictures has an edit list, before which pictures are decoded and not shown.
  for (const char* name : {"edit.mp4", "edit.mov"})
    files.emplace_back(made(name, "-ss 0.3 -i '" + (folder_ / "p.mov").string() + "' -c copy"), 17);
  for (const auto& [file, frames] : files) {
    SCOPED_TRACE(file.filename());
    const auto times = times_by_ffprobe(file);
    EXPECT_EQ(times.size(), frames);
    if (const std::string ending = file.extension(); ending == ".mkv" || ending == ".webm") {
      const auto probed = testing::applied("video.probe", {{"packets", true}}, video_of(file));
      const auto facts = testing::facts_in(probed.results.emitted.at(0));
      EXPECT_EQ(facts.at("frames"), frames);
      EXPECT_EQ(facts.at("frames_estimated"), false) << "it is counted";
    }
    for (const char* stage : {"clip.transcode", "video.clips"}) {
      const auto out = testing::applied(
          stage, {{"preset", "ultrafast"}, {"min_length", 0.0}, {"min_frames", 1}, {"edge_crop", 0.0}},
          video_of(file));
      ASSERT_EQ(out.error, "");
      ASSERT_EQ(out.results.emitted.size(), 1u);
      const auto facts = testing::facts_in(out.results.emitted[0]);
      const auto bytes = *out.results.emitted[0].bytes("mp4");
      const testing::Decoded clip = testing::decode(testing::Bytes(bytes.begin(), bytes.end()));
      ASSERT_EQ(clip.seconds.size(), times.size()) << stage;
      for (size_t i = 0; i < times.size(); ++i)
        EXPECT_NEAR(clip.seconds[i], times[i], 0.0011) << stage << " frame " << i;
      EXPECT_EQ(facts.at("frames"), times.size());
      EXPECT_NEAR(facts.at("start_s").get<double>(), 0, 1e-6);
      EXPECT_GT(facts.at("end_s").get<double>(), times.back());
      EXPECT_NEAR(facts.at("duration_s").get<double>(), clip.probe.duration_s, 0.0011);
    }
  }
}

// A hole of zeros or ones over a sixth of a file, or its bytes removed where no index counts them: the fact `damaged`,
// and no clip with a hole between its pictures.
TEST_F(Properties, DamageInTheMiddleIsFound) {
  const Row rows[] = {{"a.mp4", "", kHevc, "", 0},
                      {"b.mkv", "", kHevc, "", 0},
                      {"c.webm", "", kVp9, "", 0},
                      {"d.mp4", "", kVp9, "", 0},
                      {"e.mkv", "", kReordered, "", 0},
                      {"f.mp4", "", kReordered, "", 0},
                      {"g.ts", "", kReordered, "", 0},
                      {"h.flv", "", kReordered, "", 0},
                      {"i.ogv", "", "-c:v libtheora", "", 0},
                      {"j.asf", "", "-c:v wmv2", "", 0},
                      {"k.mp4", "", kAv1, "", 0},
                      {"l.flv", "", "-c:v flv", "", 0},
                      {"m.avi", "", "-c:v ffv1", "", 0}};
  for (const Row& row : rows) {
    const fs::path whole =
        made(row.file, std::string("-f lavfi -i testsrc2=s=192x128:r=25:d=3 -pix_fmt yuv420p ") + row.codec);
    ASSERT_FALSE(whole.empty()) << row.file;
    std::ifstream in(whole, std::ios::binary);
    const std::string bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
    const auto intact = testing::applied("video.probe", {{"count", true}}, video_of(whole));
    EXPECT_FALSE(testing::facts_in(intact.results.emitted.at(0)).contains("damaged")) << row.file;
    const std::string ending = whole.extension().string();
    const std::string hole(bytes.size() / 6, '\0'), ones(bytes.size() / 6, '\xFF');
    std::vector<std::string> fills{hole, ones};
    if (ending != ".mp4") fills.emplace_back();
    for (const std::string& fill : fills) {
      SCOPED_TRACE(std::string(row.file) + (fill == hole ? " zeros" : fill == ones ? " ones" : " removed"));
      const fs::path file =
          written("damaged" + ending, std::string(bytes).replace(bytes.size() / 2, bytes.size() / 6, fill));
      const auto probed = testing::applied("video.probe", {{"count", true}}, video_of(file));
      EXPECT_TRUE(testing::facts_in(probed.results.emitted.at(0)).contains("damaged"));
      if (ending == ".flv") {
        const auto rewritten = testing::applied("video.remux", {}, video_of(file), folder_.string());
        EXPECT_TRUE(testing::facts_in(rewritten.results.emitted.at(0)).contains("remux_failed"));
      }
      for (const char* stage : {"clip.transcode", "video.clips"}) {
        const auto clips = testing::applied(
            stage, {{"preset", "ultrafast"}, {"min_length", 0.0}, {"min_frames", 1}}, video_of(file));
        EXPECT_NE(clips.error, "") << stage;
        for (const Sample& clip : clips.results.emitted) {
          EXPECT_LT(testing::facts_in(clip).at("frames").get<int>(), 70) << stage;
          const auto mp4 = *clip.bytes("mp4");
          const auto times = testing::decode(testing::Bytes(mp4.begin(), mp4.end())).seconds;
          for (size_t i = 1; i < times.size(); ++i)
            EXPECT_LT(times[i] - times[i - 1], 0.07) << stage << " " << i;
        }
      }
    }
  }
}

// ffmpeg turns them, so with the command of the message they are read, and the same are shown.
TEST_F(Properties, PicturesThatAloneStateHowTheyAreTurnedAreRefused) {
  const fs::path plain =
      made("plain.mp4", std::string("-f lavfi -i testsrc2=s=96x64:r=25:d=1 -pix_fmt yuv420p ") + kReordered);
  const auto clips_of = [](const fs::path& file) {
    return testing::applied("clip.transcode", {{"min_length", 0.0}, {"min_frames", 1}, {"edge_crop", 0.0}},
                            video_of(file));
  };
  for (const char* turn : {"rotate=90", "flip=horizontal"}) {
    SCOPED_TRACE(turn);
    const fs::path turned =
        made("turned.mp4",
             "-i '" + plain.string() + "' -c copy -bsf:v h264_metadata=display_orientation=insert:" + turn);
    ASSERT_FALSE(turned.empty());
    EXPECT_THAT(
        clips_of(turned).error,
        ::testing::HasSubstr("turned.mp4: its pictures state that they are to be turned, its container "
                             "does not; turn them with `ffmpeg -i IN -crf 16 OUT.mp4`"));
    const fs::path upright = made("upright.mp4", "-i '" + turned.string() + "' -crf 16");
    const auto clips = clips_of(upright);
    EXPECT_EQ(clips.error, "");
    EXPECT_EQ(testing::facts_in(clips.results.emitted.at(0)).at("width"), turn[0] == 'r' ? 64 : 96);
  }
  EXPECT_EQ(clips_of(plain).error, "");
}

}  // namespace
}  // namespace kinora::video
