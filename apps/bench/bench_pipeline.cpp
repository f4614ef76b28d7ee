// kinora bench curate_pipeline and curate_memory: a whole curate job, run the way a user runs it.
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "apps/bench/bench.hpp"
#include "core/base/paths.hpp"
#include "core/plugin/options.hpp"
#include "core/runtime/call.hpp"
#include "host/stages/one_stage.hpp"
#include "kinora/abi/stage.h"

namespace kinora {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using Clock = std::chrono::steady_clock;

constexpr const char* kShots = "shots.content";
const json kTranscode = {{"preset", "veryfast"}, {"audio", false}, {"edge_crop", 0.0}};

// Lists a folder of /proc whose process may end at any moment.
template <class F>
void each_in(const fs::path& folder, F&& f) {
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) f(at->path());
}

std::vector<std::string> children(const std::string& process) {
  std::vector<std::string> out;
  each_in("/proc/" + process + "/task", [&](const fs::path& thread) {
    std::ifstream list(thread / "children");
    for (std::string child; list >> child;) out.push_back(child);
  });
  return out;
}

struct Shares {
  uint64_t all = 0, shared = 0;  // bytes: Pss, and its part Pss_Shmem
};

Shares shares(const std::string& process) {
  std::ifstream file("/proc/" + process + "/smaps_rollup");
  Shares out;
  for (std::string word; file >> word;)
    if (word == "Pss:" || word == "Pss_Shmem:") file >> (word == "Pss:" ? out.all : out.shared);
  return {out.all << 10, out.shared << 10};
}

void add_memory_files(const std::string& process, std::map<ino_t, uint64_t>& files) {
  each_in("/proc/" + process + "/fd", [&](const fs::path& link) {
    std::error_code ignored;
    struct stat s {};
    if (fs::read_symlink(link, ignored).string().starts_with("/memfd:") && ::stat(link.c_str(), &s) == 0)
      files[s.st_ino] = static_cast<uint64_t>(s.st_blocks) * 512;
  });
}

// Bytes in use now by the descendants of this process: their proportional shares (PSS), and memory files that
// no process has mapped.
uint64_t family_memory() {
  std::vector<std::string> family = children(std::to_string(::getpid()));
  uint64_t all = 0, shared = 0, in_files = 0;
  std::map<ino_t, uint64_t> files;
  for (size_t i = 0; i < family.size(); ++i) {
    const std::string process = family[i];
    const Shares held = shares(process);
    all += held.all;
    shared += held.shared;
    add_memory_files(process, files);
    for (auto& child : children(process)) family.push_back(std::move(child));
  }
  for (const auto& [inode, bytes] : files) in_files += bytes;
  return all - shared + std::max(shared, in_files);
}

// Samples family_memory() every 50 ms in a thread while the object lives and keeps the largest value in
// `most`.
class WatchedMemory {
 public:
  explicit WatchedMemory(uint64_t& most)
      : looking_([this, &most] {
          for (std::unique_lock lock(mutex_); !over_; end_.wait_for(lock, std::chrono::milliseconds(50)))
            most = std::max(most, family_memory());
        }) {}
  WatchedMemory(const WatchedMemory&) = delete;
  WatchedMemory& operator=(const WatchedMemory&) = delete;
  ~WatchedMemory() {
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
    }
    end_.notify_all();
    looking_.join();
  }

 private:
  std::mutex mutex_;
  std::condition_variable end_;
  bool over_ = false;
  std::thread looking_;
};

// Processor time of this process or of the children that it has waited for.
double processor_seconds(int who) {
  rusage usage{};
  getrusage(who, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// A folder of videos that is removed with the object.
class TestVideos {
 public:
  TestVideos() {
    std::string name = (fs::temp_directory_path() / "kinora-bench-XXXXXX").string();
    if (!mkdtemp(name.data()))
      throw Error(KINORA_ERROR_IO,
                  name + ": cannot create a temporary folder; set TMPDIR to a writable folder");
    folder_ = name;
    fs::create_directories(folder_ / "videos");
  }
  TestVideos(const TestVideos&) = delete;
  TestVideos& operator=(const TestVideos&) = delete;
  ~TestVideos() {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }
  const fs::path& folder() const { return folder_; }

  // `how`: the ffmpeg program's arguments before the name of the new video.
  std::string add(const std::string& name, const std::string& how) const {
    const std::string file = (folder_ / name).string();
    output_of("ffmpeg -nostdin -v error -y " + how + " " + shell_quoted(file));
    std::error_code error;
    if (fs::file_size(file, error) > 0 && !error) return file;
    throw Error(KINORA_ERROR_NOT_FOUND,
                "bench: the ffmpeg command that makes a test video failed or is missing; install FFmpeg with "
                "libx264");
  }

 private:
  fs::path folder_;
};

// Grain, movement and a cut every three seconds.
std::string made_video(int width, int height, int rate, int seconds, int first_hue) {
  return "-f lavfi -i " +
         shell_quoted(fmt::format("testsrc2=size={}x{}:rate={}:duration={},hue='H=floor(t/"
                                  "3)*2+{}',noise=alls=12:allf=t:all_seed={}",
                                  width, height, rate, seconds, first_hue, 7 + first_hue)) +
         " -c:v libx264 -preset veryfast -g 48 -pix_fmt yuv420p";
}

struct PipelineRun {
  double seconds = 0, processor_seconds = 0;
  uint64_t peak = 0;  // bytes of all its processes together
  json summary;
};

// Runs a curate job over a video or folder in a process of its own. stages: TOML.
PipelineRun curate(const TestVideos& videos, const std::string& input, const std::string& stages) {
  const fs::path out = videos.folder() / "out", file = videos.folder() / "run.toml";
  fs::remove_all(out);
  std::ofstream(file) << fmt::format(
      "[run]\nout = '{}'\n[[job]]\nname = 'clips'\nkind = 'curate'\ninput = '{}'\nhash = false\nstages = "
      "{}\n",
      out.string(), input, stages);
  const std::string self = shell_quoted((core::executable_folder() / "kinora").string());
  PipelineRun run;
  const double before = processor_seconds(RUSAGE_CHILDREN);
  const auto start = Clock::now();
  {
    const WatchedMemory memory(run.peak);
    output_of(self + " run " + shell_quoted(file.string()) + " 2>/dev/null");
  }
  run.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  run.processor_seconds = processor_seconds(RUSAGE_CHILDREN) - before;
  std::ifstream summary(out / "clips/summary.json");
  run.summary = json::parse(summary, nullptr, false);
  if (!run.summary.is_object() || run.summary["clips"]["kept"] == 0)
    throw Error(
        KINORA_ERROR_FAILED,
        "bench: the curate job failed; try kinora run with the stages shots.content and clip.transcode");
  return run;
}

// Runs one stage over one sample in this thread and returns the emitted sample. Adds the processor time to
// `seconds`.
Sample by_itself(core::Runtime& runtime, const std::string& id, const json& given, const Sample& video,
                 double& seconds) {
  const auto component = core::or_throw(runtime.registry().open("stage", id));
  const auto options = core::or_throw(core::Options::make(*component.spec, given));
  const auto& stage = component.table<kinora_stage>();
  const std::unique_ptr<void, void (*)(void*)> self(stage.create(host(), options.abi()), stage.destroy);
  if (!self) check(KINORA_ERROR_FAILED);
  core::StageResults results;
  const kinora_emit sink = results.sink();
  core::Call call;
  const kinora_run run = core::run_of(call);
  const double before = processor_seconds(RUSAGE_SELF);
  check(stage.process(self.get(), video.clone(video.key()).get(), &sink, &run));
  seconds += processor_seconds(RUSAGE_SELF) - before;
  if (results.emitted.empty())
    throw Error(KINORA_ERROR_FAILED, "bench: " + id + " emitted nothing for a video");
  return std::move(results.emitted.front());
}

// Processor seconds of the same work without a pipeline: decoding and encoding each video once, at known
// cuts.
double cost_alone(core::Runtime& runtime, const std::vector<std::string>& videos) {
  double seconds = 0, ignored = 0;
  for (const auto& path : videos) {
    Sample video("video");
    video.set("url", path);
    const Sample shots = by_itself(runtime, kShots, json::object(), video, ignored);
    by_itself(runtime, "clip.transcode", kTranscode, shots, seconds);
  }
  return seconds;
}

}  // namespace

json bench_curate_pipeline(core::Runtime& runtime, const BenchOptions& options) {
  const TestVideos videos;
  const unsigned cores = std::max(1U, std::thread::hardware_concurrency());
  std::vector<std::string> paths;
  for (unsigned i = 0; i < 3 * cores; ++i)
    paths.push_back(videos.add(fmt::format("videos/{}.mp4", i),
                               options.video.empty() ? made_video(1280, 720, 24, 12, static_cast<int>(i))
                                                     : fmt::format("-ss {} -t 12 -i {} -c copy -an", 12 * i,
                                                                   shell_quoted(options.video))));
  std::vector<double> busy, share;
  json last;
  for (int round = 0; round < options.repeat; ++round) {
    const double alone = cost_alone(runtime, paths) / cores;
    const PipelineRun run =
        curate(videos, (videos.folder() / "videos").string(),
               "[{ use = 'video.clips', preset = 'veryfast', audio = false, edge_crop = 0.0 }]");
    busy.push_back(run.processor_seconds / run.seconds / cores);
    share.push_back(alone / run.seconds);
    last = run.summary;
  }
  return {{"videos", paths.size()},
          {"clips", last["clips"]["kept"]},
          {"cores", cores},
          {"film_seconds_per_second", last["throughput"]["film_seconds_per_second"]},
          {"busy_cores", median(busy)},
          {"of_decode_and_encode", median(share)},
          {"bound", 0.9},
          {"within", median(busy) >= 0.9 && median(share) >= 0.9}};
}

json bench_curate_memory(core::Runtime&, const BenchOptions& options) {
  const TestVideos videos;
  const std::string piece = videos.add(
      "piece.mp4", options.video.empty() ? made_video(320, 180, 24, 60, 0)
                                         : "-i " + shell_quoted(options.video) + " -c copy -an -t 60");
  constexpr double kBound = 1.5e9, kGrowth = 1.25;
  const std::string stages = fmt::format(
      "[{{ use = '{}', sample_every = 1.0, sample_height = 128 }}, {{ use = 'clip.transcode', preset = "
      "'ultrafast', audio = false, "
      "max_length = 20.0, edge_crop = 0.0, sample_fps = 2.0, sample_height = 128 }}]",
      kShots);
  json out;
  std::vector<double> peaks;
  for (const int minutes : {10, 180}) {  // the same packets repeated
    const std::string video =
        videos.add(fmt::format("{}.mp4", minutes),
                   fmt::format("-stream_loop {} -i {} -c copy", minutes - 1, shell_quoted(piece)));
    const PipelineRun run = curate(videos, video, stages);
    peaks.push_back(static_cast<double>(run.peak));
    out["minutes"].push_back({{"minutes", minutes},
                              {"seconds", run.seconds},
                              {"peak_bytes", peaks.back()},
                              {"clips", run.summary["clips"]["kept"]}});
  }
  const double growth = peaks[1] / peaks[0];
  out.update({{"bound_bytes", kBound},
              {"growth", growth},
              {"bound_growth", kGrowth},
              {"within", peaks[1] <= kBound && growth <= kGrowth}});
  return out;
}

}  // namespace kinora
