// kinora bench curate: the stages of curation compared with the ffmpeg program on the same video.
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <memory>
#include <thread>

#include <fmt/format.h>

#include "apps/bench/bench.hpp"
#include "core/plugin/options.hpp"
#include "host/stages/one_stage.hpp"

namespace kinora {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int kClips = 12, kSeconds = 3, kRate = 24;
constexpr int kFrames = kClips * kSeconds * kRate;

double seconds_of_curating(const auto& f) {
  const auto start = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// 36 seconds of 1280x720 H.264 with sound and a key frame at the first frame of each clip: the beginning of a
// given video, or a generated one with grain. The folder is removed with the object.
class CurateVideo {
 public:
  explicit CurateVideo(const std::string& source) {
    std::string name = (fs::temp_directory_path() / "kinora-bench-XXXXXX").string();
    if (!mkdtemp(name.data()))
      throw Error(KINORA_ERROR_IO,
                  name + ": cannot create a temporary folder; set TMPDIR to a writable folder");
    folder_ = name;
    const std::string made = "-f lavfi -i " +
                             shell_quoted(fmt::format("testsrc2=size=1280x720:rate={}:duration={},"
                                                      "hue='H=floor(t/3)*2',noise=alls=3:allf=t",
                                                      kRate, kClips * kSeconds)) +
                             " -f lavfi -i sine=frequency=440:sample_rate=48000";
    const std::string input = source.empty() ? made : "-i " + shell_quoted(fs::absolute(source).string());
    output_of(fmt::format(
        "ffmpeg -v error -y {} -vf scale=1280:720 -r {} -t {} -c:v libx264 -preset veryfast -crf 18 "
        "-pix_fmt yuv420p -force_key_frames 'expr:gte(t,n_forced*{})' -c:a aac -shortest {}",
        input, kRate, kClips * kSeconds, kSeconds, shell_quoted(path())));
    std::error_code error;
    if (fs::file_size(path(), error) > 0 && !error) return;
    fs::remove_all(folder_, error);
    throw Error(
        KINORA_ERROR_NOT_FOUND,
        "bench curate: the ffmpeg command that makes a test video failed or is missing; install FFmpeg with "
        "libx264, or give a video of 36 seconds or more with --video FILE");
  }
  CurateVideo(const CurateVideo&) = delete;
  CurateVideo& operator=(const CurateVideo&) = delete;
  ~CurateVideo() {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }
  std::string path() const { return (folder_ / "video.mp4").string(); }
  const fs::path& folder() const { return folder_; }

 private:
  fs::path folder_;
};

Sample video_sample(const CurateVideo& video) {
  Sample sample("video");
  sample.set("url", video.path());
  json cuts = json::array();
  for (int i = 1; i < kClips; ++i) cuts.push_back(i * kSeconds * kRate);
  sample.set("shots.json", json{{"fps", double{kRate}}, {"frames", kFrames}, {"cuts", cuts}}.dump());
  return sample;
}

// Seconds that clip.transcode takes for the video's clips; adds the frames that it copied to `copied`.
double cut(core::Runtime& runtime, const CurateVideo& video, const json& given, int64_t& copied) {
  const auto component = core::or_throw(runtime.registry().open("stage/clip.transcode"));
  const auto options = core::or_throw(core::Options::make(*component.spec, given));
  const auto& stage = component.table<kinora_stage>();
  const std::unique_ptr<void, void (*)(void*)> self(stage.create(host(), options.abi()), stage.destroy);
  if (!self) check(KINORA_ERROR_FAILED);
  const Sample sample = video_sample(video);
  core::StageResults results;
  const kinora_emit sink = results.sink();
  kinora_run run{};
  run.struct_size = sizeof run;
  run.n_threads = static_cast<int32_t>(std::max(1U, std::thread::hardware_concurrency()));
  const double seconds =
      seconds_of_curating([&] { check(stage.process(self.get(), sample.get(), &sink, &run)); });
  if (results.emitted.size() != kClips)
    throw Error(KINORA_ERROR_FAILED,
                fmt::format("bench curate: {} of {} clips were made", results.emitted.size(), kClips));
  for (const Sample& clip : results.emitted)
    copied += json::parse(clip.need("json")).at("copied").get<int64_t>();
  return seconds;
}

// Makes the same clips with processes of the ffmpeg program: the number of processes at once and the
// threads of each (0: ffmpeg's own choice).
struct Peer {
  std::string name;
  int processes, threads;
};

double cut(const CurateVideo& video, const Peer& peer) {
  const std::string threads = peer.threads > 0 ? fmt::format("-threads {} ", peer.threads) : "";
  std::string starts;
  for (int i = 0; i < kClips; ++i) starts += fmt::format("{} ", i * kSeconds);
  const std::string one = fmt::format(
      "ffmpeg -nostdin -v error -y {}-ss {{}} -i {} -t {} -c:v libx264 -preset veryfast -crf 20 {}-c:a aac "
      "{}/{{}}.mp4",
      threads, video.path(), kSeconds, threads, video.folder().string());
  const std::string all =
      fmt::format("printf '%s\\n' {}| xargs -P {} -I{{}} {}", starts, peer.processes, one);
  const double seconds = seconds_of_curating([&] { output_of(all); });
  for (int i = 0; i < kClips; ++i)
    if (!fs::exists(video.folder() / fmt::format("{}.mp4", i * kSeconds)))
      throw Error(KINORA_ERROR_FAILED, "bench curate: the ffmpeg program made no clip");
  return seconds;
}

std::vector<Peer> peers() {
  const int cores = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  return {{"one_after_another", 1, 0},
          {"as_many_as_cores", cores, 0},
          {"as_many_as_cores_of_one_thread", cores, 1},
          {"twice_as_many_of_one_thread", 2 * cores, 1}};
}

json entry(const std::vector<double>& ours, const std::vector<double>& ratios, double bound) {
  return {{"frames", kFrames},
          {"clips", kClips},
          {"fps", kFrames / median(ours)},
          {"of_best_parallel", median(ratios)},
          {"bound", bound},
          {"within", median(ratios) >= bound}};
}

}  // namespace

json bench_curate(core::Runtime& runtime, const BenchOptions& options) {
  const CurateVideo video(options.video);
  std::vector<double> transcode, copy, transcode_ratios, copy_ratios;
  std::map<std::string, std::vector<double>> of_peers;
  int64_t copied = 0, none = 0;
  for (int round = 0; round < options.repeat; ++round) {
    double best = 1e300;
    for (const Peer& peer : peers()) {
      of_peers[peer.name].push_back(cut(video, peer));
      if (peer.processes > 1) best = std::min(best, of_peers[peer.name].back());
    }
    transcode.push_back(cut(runtime, video, json{{"edge_crop", 0.0}}, none));
    copy.push_back(cut(runtime, video, json{{"copy", "auto"}, {"edge_crop", 0.0}}, copied));
    transcode_ratios.push_back(best / transcode.back());
    copy_ratios.push_back(best / copy.back());
  }
  json out{{"transcode", entry(transcode, transcode_ratios, 1.0)}, {"copy", entry(copy, copy_ratios, 1.3)}};
  for (const auto& [name, seconds] : of_peers) out["ffmpeg"][name + "_fps"] = kFrames / median(seconds);
  out["copy"]["copied"] = copied / options.repeat;
  out["within"] = out["transcode"]["within"].get<bool>() && out["copy"]["within"].get<bool>();
  return out;
}

}  // namespace kinora
