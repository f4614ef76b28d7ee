// kinora bench plugin_call, startup and shots, and what all benchmarks share.
#include "apps/bench/bench.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <memory>

#include "core/base/paths.hpp"
#include "host/stages/one_stage.hpp"
#include "kinora/abi/stage.h"

namespace kinora {
namespace {

using Clock = std::chrono::steady_clock;
using nlohmann::json;

double seconds_of(const auto& f) {
  const auto start = Clock::now();
  f();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Measures this thread's processor time, so that other programs do not count in a call of nanoseconds.
double processor_seconds_of(const auto& f) {
  const auto now = [] {
    timespec t{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
  };
  const double start = now();
  f();
  return now() - start;
}

// Hides the dynamic class from the compiler.
template <class T>
T* opaque(T* p) {
  asm volatile("" : "+r"(p));
  return p;
}

// Runs PySceneDetect's ContentDetector over the whole video: seconds and scores.
constexpr const char* kPeer = R"(
import sys, time, json
from scenedetect import open_video, SceneManager, StatsManager
from scenedetect.detectors import ContentDetector
video = open_video(sys.argv[1])
stats = StatsManager()
manager = SceneManager(stats)
manager.add_detector(ContentDetector())
if sys.argv[2] != "0": manager.auto_downscale = False; manager.downscale = int(sys.argv[2])
start = time.perf_counter(); manager.detect_scenes(video); seconds = time.perf_counter() - start
cuts = [a.frame_num for a, b in manager.get_scene_list()][1:]
key = ContentDetector().get_metrics()[0]
scores = [stats.get_metrics(i, [key])[0] for i in range(video.frame_number)]
print(json.dumps({"seconds": seconds, "cuts": cuts, "scores": scores}))
)";

// A video of 1280x720 H.264 with grain and a cut every three seconds. Its folder is removed with the object.
class MadeVideo {
 public:
  explicit MadeVideo(int seconds) {
    std::string name = (std::filesystem::temp_directory_path() / "kinora-bench-XXXXXX").string();
    if (!mkdtemp(name.data()))
      throw Error(KINORA_ERROR_IO,
                  name + ": cannot create a temporary folder; set TMPDIR to a writable folder");
    folder_ = name;
    const std::string source = "testsrc2=size=1280x720:rate=24:duration=" + std::to_string(seconds) +
                               ",hue='H=floor(t/3)*2',noise=alls=12:allf=t";
    output_of("ffmpeg -v error -f lavfi -i " + shell_quoted(source) +
              " -c:v libx264 -preset veryfast -pix_fmt yuv420p " + shell_quoted(path()));
    std::error_code error;
    if (std::filesystem::file_size(path(), error) > 0 && !error) return;
    std::filesystem::remove_all(folder_, error);
    throw Error(
        KINORA_ERROR_NOT_FOUND,
        "bench shots: the ffmpeg command that makes a test video failed or is missing; install FFmpeg with "
        "libx264, or give a video with --video FILE");
  }
  MadeVideo(const MadeVideo&) = delete;
  MadeVideo& operator=(const MadeVideo&) = delete;
  ~MadeVideo() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  std::string path() const { return (folder_ / "video.mp4").string(); }

 private:
  std::filesystem::path folder_;
};

// The peer has no score for the first frame, which has no predecessor; ours is 0.
json compared(const json& found, const json& peer) {
  const json &ours = found.at("scores"), &theirs = peer.at("scores");
  double worst = 0;
  int64_t missing = 0;
  for (size_t i = 0; i < std::min(ours.size(), theirs.size()); ++i) {
    if (theirs[i].is_number())
      worst = std::max(worst, std::abs(ours[i].get<double>() - theirs[i].get<double>()));
    missing += i > 0 && !theirs[i].is_number();
  }
  json out{{"equal_cuts", found.at("cuts") == peer.at("cuts")},
           {"largest_score_difference", worst},
           {"equal_scores", ours.size() == theirs.size() && missing == 0 && worst == 0}};
  if (ours.size() != theirs.size())
    out["unequal_lengths"] = {{"scores", ours.size()}, {"of_peer", theirs.size()}};
  if (missing > 0) out["peer_scores_missing"] = missing;
  return out;
}

}  // namespace

std::string output_of(const std::string& command) {
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen((command + " 2>/dev/null").c_str(), "r"), pclose);
  std::string out;
  char part[4096];
  while (pipe && std::fgets(part, sizeof part, pipe.get())) out += part;
  return out;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

json bench_plugin_call(core::Runtime& runtime, const BenchOptions& options) {
  // Its start() is the SDK's, which does nothing: the call is all that is measured.
  const auto component = core::or_throw(runtime.registry().open("stage/filter.facts"));
  const auto& stage = component.table<kinora_stage>();
  const auto values = core::or_throw(core::Options::make(*component.spec, {{"fact", "fps"}}));
  const std::unique_ptr<void, void (*)(void*)> self(stage.create(host(), values.abi()), stage.destroy);
  if (!self) check(KINORA_ERROR_FAILED);
  const std::unique_ptr<Virtual> direct = make_virtual();
  Virtual* virtual_stage = direct.get();
  const kinora_stage* table = opaque(&stage);
  constexpr int kCalls = 2'000'000;
  constexpr double kBound = 2.0;
  std::vector<double> through, straight, ratios;
  const kinora_run run{sizeof run};
  for (int round = 0; round < options.repeat; ++round) {
    straight.push_back(processor_seconds_of([&] {
                         for (int i = 0; i < kCalls; ++i) opaque(virtual_stage)->start(opaque(&run));
                       }) /
                       kCalls * 1e9);
    through.push_back(processor_seconds_of([&] {
                        for (int i = 0; i < kCalls; ++i) opaque(table)->start(self.get(), opaque(&run));
                      }) /
                      kCalls * 1e9);
    ratios.push_back(through.back() / straight.back());
  }
  return {{"plugin_ns", median(through)},
          {"virtual_ns", median(straight)},
          {"ratio", median(ratios)},
          {"bound", kBound},
          {"within", median(ratios) <= kBound}};
}

json bench_startup(core::Runtime&, const BenchOptions& options) {
  const std::string self = shell_quoted((core::executable_folder() / "kinora").string());
  std::vector<double> times;
  for (int i = 0; i < options.repeat + 1; ++i)
    times.push_back(seconds_of([&] { output_of(self + " plugins list"); }) * 1e3);
  times.erase(times.begin());  // the first fills the page cache
  // The dynamic linker itself reports whose constructors it called.
  const bool torch = !output_of("LD_DEBUG=files " + self +
                                " plugins list 2>&1 >/dev/null | grep -m1 'calling init: .*/libtorch'")
                          .empty();
  return {{"milliseconds", median(times)},
          {"bound", 50},
          {"libtorch_loaded", torch},
          {"within", median(times) <= 50 && !torch}};
}

namespace {

// One way to detect shots, compared with decoding alone and, where the peer does the same, with the peer.
struct ShotsTrial {
  const char* name;
  core::OneStage stage;
  int downscale;  // of the peer; below 0: no peer
  double bound;
  std::vector<double> seconds, ratios, peers, peer_ratios;
  json found, peer;

  void run(const Sample& video, const std::string& path, double alone) {
    seconds.push_back(seconds_of([&] { found = json::parse(stage(video).need("shots.json")); }));
    ratios.push_back(alone / seconds.back());
    if (downscale < 0) return;
    peer = json::parse(output_of("python3 -c " + shell_quoted(kPeer) + " " + shell_quoted(path) + " " +
                                 std::to_string(downscale)),
                       nullptr, false);
    if (!peer.is_object()) return;
    peers.push_back(peer.at("seconds"));
    peer_ratios.push_back(peers.back() / seconds.back());
  }

  json result(double frames) const {
    json out{{"shots_fps", frames / median(seconds)},
             {"of_decoding", median(ratios)},
             {"bound", bound},
             {"within", median(ratios) >= bound}};
    if (downscale < 0) return out;
    if (peers.empty()) {
      out["peer"] = "not measured: python3 has no scenedetect (packaging/dev.sh setup installs it)";
      return out;
    }
    out.update({{"peer", "PySceneDetect"},
                {"peer_fps", frames / median(peers)},
                {"faster_than_peer", median(peer_ratios)}});
    out.update(compared(found, peer));
    return out;
  }
};

}  // namespace

json bench_shots(core::Runtime& runtime, const BenchOptions& options) {
  const auto made = options.video.empty() ? std::make_unique<MadeVideo>(options.quick ? 1 : 12) : nullptr;
  const std::string path = made ? made->path() : std::filesystem::absolute(options.video).string();
  const json threads{{"threads", options.threads}};
  const auto with = [&](json more) {
    more.update(threads);
    return more;
  };
  constexpr core::Isolation kHere{.is_allowed = false};  // starting a process is not part of the measurement
  const core::OneStage decode(runtime, "video.probe", with({{"count", true}}), kHere);
  const json five{{"detectors", {"content", "adaptive", "histogram", "hash", "threshold"}},
                  {"sample_every", 1.0},
                  {"sample_height", 256}};
  ShotsTrial trials[] = {
      {"content", {runtime, "shots.content", threads, kHere}, 0, 0.95, {}, {}, {}, {}, {}, {}},
      {"full_size",
       {runtime, "shots.content", with({{"downscale", 1}}), kHere},
       1,
       0.95,
       {},
       {},
       {},
       {},
       {},
       {}},
      {"five_and_frames", {runtime, "shots", with(five), kHere}, -1, 0.85, {}, {}, {}, {}, {}, {}}};
  Sample video("video");
  video.set("url", path);
  std::vector<double> alone;
  double frames = 0;
  for (int round = 0; round < options.repeat; ++round) {
    // Before every trial, so that other load on the machine affects both alike.
    for (auto& trial : trials) {
      alone.push_back(seconds_of([&] { frames = json::parse(decode(video).need("json")).at("frames"); }));
      trial.run(video, path, alone.back());
    }
  }
  json out{{"frames", frames}, {"threads", options.threads}, {"decode_fps", frames / median(alone)}};
  out.update(trials[0].result(frames));
  for (const auto* trial = trials + 1; trial != std::end(trials); ++trial) {
    out[trial->name] = trial->result(frames);
    out["within"] = out["within"].get<bool>() && out[trial->name]["within"].get<bool>();
  }
  return out;
}

}  // namespace kinora
