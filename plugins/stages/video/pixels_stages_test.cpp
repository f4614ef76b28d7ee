// A pixel means the same on every way through the stages: files made by ffmpeg in several containers, codecs, depths,
// layouts, ranges and orientations, as clips, rewritten clips, sampled frames, previews and decoded frames.
#include <array>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>

#include "media/scaler.hpp"
#include "stage_testing.hpp"

namespace kinora::video {
namespace {

using core::json;
using testing::applied;
using testing::Bytes;
namespace fs = std::filesystem;

constexpr int kWide = 128, kHigh = 64;

// A folder of this test, removed at its end.
class Folder {
 public:
  Folder()
      : path_(fs::path(::testing::TempDir()) /
              ("pixels-" + std::to_string(getpid()) + "-" +
               ::testing::UnitTest::GetInstance()->current_test_info()->name())) {
    fs::create_directories(path_);
  }
  ~Folder() { fs::remove_all(path_); }
  const fs::path& path() const { return path_; }

  // Runs ffmpeg; empty if it fails.
  fs::path made(const std::string& name, const std::string& arguments) const {
    const fs::path out = path_ / name;
    const std::string command =
        "ffmpeg -nostdin -v error -y " + arguments + " '" + out.string() + "' && echo made";
    return testing::output_of(command).empty() ? fs::path() : out;
  }

 private:
  fs::path path_;
};

struct Picture {
  int width = 0, height = 0;
  Bytes rgb;
  const uint8_t* at(int x, int y) const { return &rgb[(static_cast<size_t>(y) * width + x) * 3]; }
};

Picture first_of(const kinora_dl_tensor& t) {
  const auto* pixels = static_cast<const uint8_t*>(t.data) + t.byte_offset;
  Picture out{static_cast<int>(t.shape[2]), static_cast<int>(t.shape[1]), {}};
  out.rgb.assign(pixels, pixels + t.shape[1] * t.shape[2] * 3);
  return out;
}

// The first picture of a file of ours as ffmpeg shows it, by the matrix and range of its tags.
Picture shown_by_ffmpeg(const fs::path& file, const VideoInfo& video) {
  const bool turned = video.rotation.swaps_sides();
  Picture out{turned ? video.height : video.width, turned ? video.width : video.height, {}};
  out.rgb =
      testing::output_of("ffmpeg -nostdin -v error -i '" + file.string() +
                         "' -frames:v 1 -vf scale=in_color_matrix=auto:flags=accurate_rnd+full_chroma_int "
                         "-pix_fmt rgb24 -f rawvideo -");
  EXPECT_EQ(out.rgb.size(), static_cast<size_t>(out.width) * out.height * 3);
  return out;
}

Picture shown_by_ffmpeg(std::string_view bytes, const Folder& folder) {
  const fs::path file = folder.path() / "made.mp4";
  std::ofstream(file, std::ios::binary) << bytes;
  FileSource source(file);
  return shown_by_ffmpeg(file, probe(source, "made.mp4").video);
}

Sample video_of(const fs::path& file) {
  Sample video("film");
  video.set("url", file.string());
  return video;
}

// The first picture of a video on every way through the stages.
std::vector<std::pair<std::string, Picture>> on_every_way(const fs::path& file, const Folder& folder) {
  std::vector<std::pair<std::string, Picture>> out;
  const json cut{{"preset", "ultrafast"}, {"crf", 1},       {"min_length", 0.0}, {"min_frames", 1},
                 {"edge_crop", 0.0},      {"audio", false}, {"sample_fps", 4.0}};
  for (const char* stage : {"clip.transcode", "video.clips"}) {
    const auto clips = applied(stage, cut, video_of(file));
    EXPECT_EQ(clips.error, "");
    if (clips.results.emitted.empty()) continue;
    const Sample& clip = clips.results.emitted[0];
    out.emplace_back(std::string("clip of ") + stage, shown_by_ffmpeg(clip.need("mp4"), folder));
    out.emplace_back(std::string("frames of ") + stage, first_of(*clip.tensor("frames")));
    if (std::string(stage) == "video.clips") continue;
    const auto read = applied("video.read", {{"frames", 1}}, clip);
    out.emplace_back("training", first_of(*read.results.emitted.at(0).tensor("frames")));
  }
  const auto read = applied("video.read", {{"frames", 1}}, video_of(file));
  out.emplace_back("video.read", first_of(*read.results.emitted.at(0).tensor("frames")));
  const auto shots = applied("shots.fixed", {{"sample_every", 1.0}, {"sample_height", 0}}, video_of(file));
  out.emplace_back("shots", first_of(*shots.results.emitted.at(0).tensor("frames")));
  const auto& height = out.back().second.height;
  const auto preview =
      applied("clip.preview", {{"format", "mp4"}, {"crf", 1}, {"height", height}}, video_of(file));
  out.emplace_back("preview", shown_by_ffmpeg(preview.results.emitted.at(0).need("preview.mp4"), folder));
  return out;
}

// Bars of these colours, each kWide / 8 pixels wide.
constexpr std::array<std::array<int, 3>, 8> kBars{{{0, 0, 0},
                                                   {16, 16, 16},
                                                   {64, 64, 64},
                                                   {192, 192, 192},
                                                   {235, 235, 235},
                                                   {255, 255, 255},
                                                   {200, 40, 40},
                                                   {40, 60, 180}}};

bool is_rgb(const std::string& format) { return format == "gbrp" || format == "bgra"; }

// The bars as a source filter of ffmpeg, converted to this range and matrix.
std::string bars(const std::string& range, const std::string& matrix, const std::string& format) {
  std::string source =
      "color=s=" + std::to_string(kWide) + "x" + std::to_string(kHigh) + ":r=8:d=0.3,format=gbrp";
  for (size_t i = 0; i < kBars.size(); ++i) {
    char colour[16];
    snprintf(colour, sizeof colour, "0x%02x%02x%02x", kBars[i][0], kBars[i][1], kBars[i][2]);
    source += ",drawbox=x=" + std::to_string(i * kWide / 8) + ":w=" + std::to_string(kWide / 8) +
              ":color=" + colour + ":t=fill";
  }
  return source + ",scale=out_range=" + range + ":out_color_matrix=" + matrix +
         ":flags=accurate_rnd+full_chroma_int,format=" + format + ",setparams=range=" + range +
         ":colorspace=" + (is_rgb(format) ? "gbr" : matrix);
}

struct Form {
  const char *file, *codec, *format, *range, *matrix;
  bool grey = false;
};

const Form kForms[] = {
    {"a.mp4", "libx264 -qp 1", "yuvj420p", "pc", "bt709"},
    {"b.mkv", "libx264 -qp 1", "yuvj420p", "pc", "smpte170m"},
    {"c.mp4", "libx264 -qp 1", "yuv420p", "tv", "bt709"},
    {"d.mp4", "libx264 -qp 1", "yuvj444p", "pc", "bt709"},
    {"e.mkv", "libx264 -qp 1", "yuv420p10le", "pc", "bt709"},
    {"f.ts", "libx264 -qp 1", "yuv422p10le", "tv", "bt709"},
    {"g.ts", "libx264 -qp 1", "yuvj420p", "pc", "bt709"},
    {"h.avi", "mjpeg -q:v 1", "yuvj422p", "pc", "smpte170m"},
    {"i.mov", "prores_ks -profile:v 3", "yuv422p10le", "tv", "smpte170m"},
    {"j.mkv", "ffv1", "yuv444p10le", "pc", "bt709"},
    {"k.mkv", "ffv1", "gray", "pc", "bt709", true},
    {"l.mkv", "ffv1", "yuv411p", "pc", "smpte170m"},
    {"m.webm", "libvpx-vp9 -lossless 1 -deadline realtime -cpu-used 8", "gbrp", "pc", "bt709"},
    {"n.mkv", "libx265 -x265-params log-level=none:lossless=1", "yuv420p12le", "pc", "bt709"},
    {"o.mp4", "mpeg4 -q:v 1", "yuv420p", "tv", "smpte170m"},
    {"p.mkv", "huffyuv", "bgra", "pc", "bt709"},
};

std::string tags(const Form& form) {
  const std::string matrix = is_rgb(form.format) ? "rgb" : form.matrix;
  return std::string(" -color_range ") + form.range + " -colorspace " + matrix + " ";
}

// Centres of the bars, within the rounding of two conversions and codecs.
void expect_bars(const Picture& picture, bool grey) {
  const int bar = picture.width / 8;
  for (size_t i = 0; i < kBars.size(); ++i) {
    const uint8_t* pixel = picture.at(static_cast<int>(i) * bar + bar / 2, picture.height / 2);
    if (grey && i > 5) continue;
    for (size_t c = 0; c < 3; ++c) EXPECT_NEAR(pixel[c], kBars[i][c], 6) << "bar " << i << " channel " << c;
  }
}

TEST(Pixels, KeepTheirValuesInEveryRangeMatrixDepthAndLayout) {
  const Folder folder;
  if (folder.made("none.mp4", "-f lavfi -i color=d=0.1").empty()) GTEST_SKIP() << "no ffmpeg";
  for (const Form& form : kForms) {
    const fs::path file =
        folder.made(form.file, "-f lavfi -i \"" + bars(form.range, form.matrix, form.format) + "\" -c:v " +
                                   form.codec + tags(form));
    ASSERT_FALSE(file.empty()) << form.file << " " << form.codec;
    auto ways = on_every_way(file, folder);
    const auto small = applied(
        "clip.transcode",
        {{"crf", 1}, {"max_height", kHigh / 2}, {"min_length", 0.0}, {"min_frames", 1}, {"edge_crop", 0.0}},
        video_of(file));
    ways.emplace_back("smaller clip", shown_by_ffmpeg(small.results.emitted.at(0).need("mp4"), folder));
    for (const auto& [way, picture] : ways) {
      SCOPED_TRACE(std::string(form.file) + " " + form.codec + " " + form.format + ": " + way);
      expect_bars(picture, form.grey);
    }
  }
}

// Four colours and a white corner, so that no two orientations look alike.
std::string quarters() {
  return "color=red:s=96x64:r=8:d=1,format=yuv420p,drawbox=x=48:y=0:w=48:h=32:color=green:t=fill,"
         "drawbox=x=0:y=32:w=48:h=32:color=blue:t=fill,drawbox=x=48:y=32:w=48:h=32:color=yellow:t=fill,"
         "drawbox=x=0:y=0:w=16:h=8:color=white:t=fill";
}

// Writes (a b; c d) into the track header of an MP4, the way cameras do.
void set_matrix(const fs::path& file, const std::array<int, 4>& m) {
  std::fstream f(file, std::ios::in | std::ios::out | std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(f)), std::istreambuf_iterator<char>());
  const size_t box = bytes.find("tkhd");
  ASSERT_NE(box, std::string::npos);
  const int width = 96, height = 64;
  const int x = m[0] < 0 || m[2] < 0 ? (m[0] < 0 ? width : height) : 0;
  const int y = m[1] < 0 || m[3] < 0 ? (m[1] < 0 ? width : height) : 0;
  const std::array<int64_t, 9> all{m[0] * 65536, m[1] * 65536, 0,      m[2] * 65536, m[3] * 65536, 0,
                                   x * 65536,    y * 65536,    1 << 30};
  std::string out;
  for (const int64_t v : all)
    for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(static_cast<uint32_t>(v) >> shift);
  f.clear();
  f.seekp(static_cast<std::streamoff>(box + 44));  // ISO/IEC 14496-12, 8.3.2, version 0
  f << out;
}

// Stored pixels are not square: bins and facts are of what is shown.
TEST(Pixels, AspectBinsAreOfWhatIsShown) {
  const Folder folder;
  const struct {
    const char *size, *sar, *bin;
    int turn;
  } cases[] = {{"64x64", "16/9", "16_9", 0},  {"64x64", "9/16", "9_16", 0}, {"64x64", "16/9", "9_16", 90},
               {"96x64", "32/27", "16_9", 0}, {"72x64", "8/9", "1_1", 0},   {"64x64", "1", "1_1", 0}};
  for (const char* file : {"a.mp4", "a.mkv", "a.ts"})
    for (const auto& c : cases) {
      if (c.turn != 0 && std::string(file) != "a.mp4") continue;
      const fs::path flat =
          folder.made(file, std::string("-f lavfi -i \"testsrc2=s=") + c.size + ":r=8:d=1,setsar=" + c.sar +
                                "\" -c:v libx264 -pix_fmt yuv420p");
      if (flat.empty()) GTEST_SKIP() << "no ffmpeg";
      if (c.turn == 90) set_matrix(flat, {0, 1, -1, 0});
      for (const char* stage : {"clip.transcode", "video.clips"}) {
        SCOPED_TRACE(std::string(file) + " " + c.size + " " + c.sar + " " + stage);
        const json cut{{"min_length", 0.0}, {"min_frames", 1}, {"edge_crop", 0.0}};
        const auto clips = applied(stage, cut, video_of(flat));
        const json facts = testing::facts_in(clips.results.emitted.at(0));
        EXPECT_EQ(facts.at("bin").at("aspect"), c.bin) << facts;
        json dropping = cut;
        dropping["bins"] = "drop";
        const auto dropped = applied(stage, dropping, video_of(flat));
        EXPECT_EQ(testing::facts_in(dropped.results.dropped.at(0).sample).at("bounds"),
                  json::parse(R"({"clip.no-bin": {"at_least": 5.0}})"));
      }
      const auto probed = applied("video.probe", json::object(), video_of(flat));
      double num = 1, den = 1;
      sscanf(c.sar, "%lf/%lf", &num, &den);
      EXPECT_NEAR(testing::facts_in(probed.results.emitted.at(0)).at("sample_aspect").get<double>(),
                  num / den, 0.01);
    }
}

double mean_difference(const Bytes& a, const Bytes& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += std::abs(a[i] - b[i]);
  return sum / static_cast<double>(a.size());
}

TEST(Pixels, StandAsFfmpegShowsThemInAllEightOrientations) {
  const Folder folder;
  const fs::path plain = folder.made("plain.mp4", "-f lavfi -i \"" + quarters() + "\" -c:v libx264 -qp 4");
  if (plain.empty()) GTEST_SKIP() << "no ffmpeg";
  const std::array<int, 4> matrices[] = {{1, 0, 0, 1},  {0, 1, -1, 0}, {-1, 0, 0, -1}, {0, -1, 1, 0},
                                         {-1, 0, 0, 1}, {1, 0, 0, -1}, {0, 1, 1, 0},   {0, -1, -1, 0}};
  std::vector<Bytes> seen;
  for (const auto& matrix : matrices) {
    const fs::path file = folder.path() / "turned.mp4";
    fs::copy_file(plain, file, fs::copy_options::overwrite_existing);
    set_matrix(file, matrix);
    FileSource source(file);
    const Probe found = probe(source, "turned.mp4");
    const Picture truth = shown_by_ffmpeg(file, found.video);
    for (const Bytes& other : seen)
      EXPECT_TRUE(other.size() != truth.rgb.size() || mean_difference(other, truth.rgb) > 4);
    seen.push_back(truth.rgb);
    for (const auto& [way, picture] : on_every_way(file, folder)) {
      SCOPED_TRACE(::testing::PrintToString(matrix) + ": " + way);
      ASSERT_EQ(std::pair(picture.width, picture.height), std::pair(truth.width, truth.height));
      EXPECT_LT(mean_difference(picture.rgb, truth.rgb), 4);
    }
    const auto thumbnails = applied("shots.fixed", {{"thumbnails", true}}, video_of(file));
    const Picture small = first_of(*thumbnails.results.emitted.at(0).tensor("thumbnails"));
    const Bytes expected = testing::output_of("ffmpeg -nostdin -v error -i '" + file.string() +
                                              "' -frames:v 1 -f rawvideo -pix_fmt rgb24 -s 48x27 -");
    ASSERT_EQ(expected.size(), small.rgb.size());
    EXPECT_LT(mean_difference(small.rgb, expected), 4) << ::testing::PrintToString(matrix);
  }
}

}  // namespace
}  // namespace kinora::video
