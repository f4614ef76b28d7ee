// Checks the clips of a video against presentation times from ffprobe and the rules in plain loops, with the
// stages' defaults and at a variable rate.
#include <filesystem>
#include <sstream>

#include <gmock/gmock.h>

#include "stage_testing.hpp"

namespace kinora::video {
namespace {

using core::json;
using testing::Applied;
using testing::applied;
using testing::Bytes;
using testing::facts_in;

constexpr double kRounding = 2e-6;  // seconds: ffprobe's and ours have six digits

std::vector<std::string> lines_of(const std::string& command) {
  const Bytes text = testing::output_of(command);
  std::istringstream stream(std::string(text.begin(), text.end()));
  std::vector<std::string> out;
  for (std::string line; std::getline(stream, line);)
    if (!line.empty()) out.push_back(line);
  return out;
}

// Seconds of every frame from the first, followed by the end of the last. Empty if ffprobe is missing.
std::vector<double> times_by_ffprobe(const std::filesystem::path& video) {
  const std::string probe =
      "ffprobe -v error -select_streams v:0 -of csv=p=0 '" + video.string() + "' -show_entries ";
  std::vector<double> times;
  for (const auto& line : lines_of(probe + "frame=best_effort_timestamp_time"))
    times.push_back(std::stod(line));
  if (times.empty()) return {};
  double end = 0;
  for (const auto& line : lines_of(probe + "packet=pts_time,duration_time"))
    if (std::stod(line) == times.back()) end = times.back() + std::stod(line.substr(line.find(',') + 1));
  times.push_back(end);
  const double start = times.front();
  for (double& t : times) t -= start;
  return times;
}

// The stages' options with their defaults.
struct Rules {
  std::string long_shots = "stride";
  double edge = 0.5, longest = 60, stride = 0, shortest = 2;
  int64_t min_frames = 48;
};

struct Piece {
  int64_t first, end;
  bool kept;
};

// Computes the pieces of one shot [a, b) frame by frame.
class Pieces {
 public:
  Pieces(const std::vector<double>& t, const Rules& rules, int64_t a, int64_t b) : t_(t), r_(rules) {
    cut(a, b);
  }
  const std::vector<Piece>& all() const { return all_; }

 private:
  double at(int64_t frame) const { return t_[static_cast<size_t>(frame)]; }

  void cut(int64_t a, int64_t b) {
    int64_t first = a, end = b;
    while (first + 1 <= b && at(first + 1) - at(a) <= r_.edge + kRounding && r_.edge > 0) ++first;
    while (end - 1 >= a && at(b) - at(end - 1) <= r_.edge + kRounding && r_.edge > 0) --end;
    if (end <= first) return add(a, b, false);
    if (r_.long_shots == "equal") return equal(first, end);
    for (int64_t from = first; from < end; from = after(from, end, r_.stride > 0 ? r_.stride : r_.longest)) {
      const int64_t to = after(from, end, r_.longest);
      add(from, to, true);
      if (to == end || r_.long_shots == "truncate") return;
    }
  }

  int64_t after(int64_t from, int64_t end, double seconds) const {
    int64_t to = from + 1;
    while (to < end && at(to + 1) - at(from) <= seconds + kRounding) ++to;
    return to;
  }

  // Adds parts until none exceeds the longest.
  void equal(int64_t first, int64_t end) {
    for (int parts = 1;; ++parts) {
      std::vector<int64_t> bounds{first};
      for (int p = 1; p <= parts; ++p) {
        int64_t to = bounds.back();
        while (to < end && at(to + 1) - at(first) <= (at(end) - at(first)) * p / parts + 2 * kRounding) ++to;
        bounds.push_back(p == parts ? end : to);
      }
      bool keeps = true;
      for (size_t i = 1; i < bounds.size(); ++i)
        keeps = keeps && at(bounds[i]) - at(bounds[i - 1]) <= r_.longest + kRounding;
      for (size_t i = 1; keeps && i < bounds.size(); ++i) add(bounds[i - 1], bounds[i], true);
      if (keeps) return;
    }
  }

  void add(int64_t first, int64_t end, bool fits) {
    const bool kept = fits && end - first >= r_.min_frames && at(end) - at(first) >= r_.shortest - kRounding;
    all_.push_back({first, end, kept});
  }

  const std::vector<double>& t_;
  const Rules& r_;
  std::vector<Piece> all_;
};

std::vector<Piece> expected(const std::vector<double>& times, const std::vector<int64_t>& cuts,
                            const Rules& rules) {
  std::vector<Piece> out;
  int64_t first = 0;
  std::vector<int64_t> ends = cuts;
  ends.push_back(static_cast<int64_t>(times.size()) - 1);
  for (const int64_t end : ends) {
    const Pieces pieces(times, rules, first, end);
    out.insert(out.end(), pieces.all().begin(), pieces.all().end());
    first = end;
  }
  return out;
}

// Every emitted or dropped clip is one of the pieces, in frames and in time.
void expect_pieces(const Applied& found, const std::vector<double>& times, const std::vector<Piece>& pieces) {
  EXPECT_EQ(found.error, "");
  size_t made = 0, dropped = 0;
  for (const Piece& piece : pieces) {
    SCOPED_TRACE(std::to_string(piece.first) + " to " + std::to_string(piece.end));
    const double start = times[static_cast<size_t>(piece.first)], end = times[static_cast<size_t>(piece.end)];
    if (!piece.kept) {
      ASSERT_LT(dropped, found.results.dropped.size());
      const auto& drop = found.results.dropped[dropped++];
      EXPECT_NEAR(drop.score,
                  drop.rule == "clip.too-short" ? end - start : static_cast<double>(piece.end - piece.first),
                  2e-3);
      continue;
    }
    ASSERT_LT(made, found.results.emitted.size());
    const Sample& clip = found.results.emitted[made++];
    const json facts = facts_in(clip);
    EXPECT_EQ(facts.at("first_frame"), piece.first);
    EXPECT_EQ(facts.at("end_frame"), piece.end);
    EXPECT_NEAR(facts.at("start_s").get<double>(), start, kRounding);
    EXPECT_NEAR(facts.at("end_s").get<double>(), end, kRounding);
    EXPECT_NEAR(facts.at("duration_s").get<double>(), end - start, 2e-3);
    const auto bytes = *clip.bytes("mp4");
    const testing::Decoded own = testing::decode(Bytes(bytes.begin(), bytes.end()));
    ASSERT_EQ(static_cast<int64_t>(own.seconds.size()), piece.end - piece.first);
    for (size_t i = 0; i < own.seconds.size(); ++i)
      EXPECT_NEAR(own.seconds[i], times[static_cast<size_t>(piece.first) + i] - start, 1e-4) << i;
  }
  EXPECT_EQ(found.results.emitted.size(), made);
  EXPECT_EQ(found.results.dropped.size(), dropped);
}

json options_of(const Rules& r) {
  return {{"preset", "ultrafast"},      {"audio", false},
          {"long_shots", r.long_shots}, {"edge_crop", r.edge},
          {"max_length", r.longest},    {"stride", r.stride},
          {"min_length", r.shortest},   {"min_frames", r.min_frames}};
}

TEST(ClipLengths, OfTheStagesOwnDefaults) {
  const auto times = times_by_ffprobe(testing::data("film.mp4"));
  if (times.empty()) GTEST_SKIP() << "no ffprobe";
  ASSERT_EQ(times.size(), 881u);
  const Bytes text = testing::load("film.json");
  const auto cuts = json::parse(text.begin(), text.end()).at("cuts").get<std::vector<int64_t>>();
  const auto pieces = expected(times, cuts, Rules{});
  const Sample video = testing::video_at("film.mp4");
  expect_pieces(applied("video.clips", json::object(), video), times, pieces);
  const Sample with_shots = core::OneStage(testing::runtime(), "shots", json::object())(video);
  const Applied two = applied("clip.transcode", json::object(), with_shots);
  expect_pieces(two, times, pieces);
  EXPECT_EQ(two.results.emitted.size(), 8u) << "four of the twelve shots have less than 72 frames";
}

// Four scenes in 20 s: 30 frames per second, then every seventh of them with a gap of a second, then every
// third.
std::filesystem::path variable_video() {
  const auto path =
      std::filesystem::path(::testing::TempDir()) / ("variable-" + std::to_string(getpid()) + ".mp4");
  const std::string scenes =
      "testsrc2=s=96x64:r=30:d=20,negate=enable='between(t,7.02,13.45)',hue=h=90:enable='gt(t,16.05)',"
      "select='lt(t,4)+between(t,4,11)*not(mod(n,7))+gt(t,12)*not(mod(n,3))'";
  const std::string command = "ffmpeg -nostdin -v error -y -f lavfi -i \"" + scenes +
                              "\" -fps_mode vfr -c:v libx264 -preset veryfast -bf 2 '" + path.string() +
                              "' && echo made";
  return testing::output_of(command).empty() ? std::filesystem::path() : path;
}

TEST(ClipLengths, AtAVariableRateAreThoseOfThePictures) {
  const auto path = variable_video();
  const auto times = path.empty() ? std::vector<double>{} : times_by_ffprobe(path);
  if (times.empty()) GTEST_SKIP() << "no ffmpeg";
  Sample video("film");
  video.set("url", path.string());
  const Sample with_shots = core::OneStage(testing::runtime(), "shots", {{"detectors", {"content"}}})(video);
  const json shots = json::parse(with_shots.need("shots.json"));
  ASSERT_EQ(static_cast<size_t>(shots.at("frames")) + 1, times.size());
  const auto cuts = shots.at("cuts").get<std::vector<int64_t>>();
  std::vector<int64_t> scenes;
  for (const double at : {7.02, 13.45, 16.05})
    scenes.push_back(std::lower_bound(times.begin(), times.end(), at) - times.begin());
  EXPECT_EQ(cuts, scenes);
  const Rules cases[] = {{"stride", 0.5, 60, 0, 2, 1},      {"stride", 0, 1.5, 0, 0, 1},
                         {"stride", 0.3, 1.5, 0.7, 0.5, 2}, {"stride", 0.25, 1, 1.8, 0, 1},
                         {"truncate", 0.5, 2.5, 0, 1, 10},  {"equal", 0, 1.3, 0, 0, 1},
                         {"equal", 0.4, 2.9, 0, 1, 5},      {"stride", 2, 60, 0, 0, 1}};
  for (const Rules& rules : cases) {
    SCOPED_TRACE(options_of(rules).dump());
    const auto pieces = expected(times, cuts, rules);
    json options = options_of(rules);
    expect_pieces(applied("clip.transcode", options, with_shots), times, pieces);
    options["detectors"] = {"content"};
    expect_pieces(applied("video.clips", options, video.clone("film")), times, pieces);
  }
  // Without shots the whole video is one shot, also measured by its own times.
  const Rules whole{"stride", 0.5, 3, 0, 0, 1};
  expect_pieces(applied("clip.transcode", options_of(whole), video), times, expected(times, {}, whole));
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace kinora::video
