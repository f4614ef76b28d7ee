// kinora bench record: the record of a curate job with a million clips.
#include <chrono>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>

#include "apps/bench/bench.hpp"
#include "plugins/jobs/curation/record.hpp"
#include "plugins/jobs/curation/usage.hpp"

namespace kinora {
namespace {

namespace fs = std::filesystem;
using core::Record;
using nlohmann::json;

double seconds_of_record(const auto& f) {
  const auto start = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Videos of 50 clips each.
class RecordBench {
 public:
  explicit RecordBench(int64_t clips) {
    std::string name = (fs::temp_directory_path() / "kinora-bench-XXXXXX").string();
    if (!mkdtemp(name.data()))
      throw Error(KINORA_ERROR_IO,
                  name + ": cannot create a temporary folder; set TMPDIR to a writable folder");
    folder_ = name;
    fs::create_directories(data());
    for (int64_t i = 0; i < clips / kClips; ++i)
      inputs_.add({.url = fmt::format("/videos/{:03}/video-{:06}.mp4", i % 1000, i),
                   .size = 1000 + static_cast<uint64_t>(i),
                   .modified = 1});
  }
  RecordBench(const RecordBench&) = delete;
  RecordBench& operator=(const RecordBench&) = delete;
  ~RecordBench() {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }

  // The stored files, empty ones: storing is the clips' own cost.
  void store() {
    inputs_.each([&](size_t, const core::Input& input) {
      for (int64_t clip = 0; clip < kClips; ++clip) std::ofstream(data() / file_of(input.url, clip));
    });
  }
  // As one run: every clip is kept, then its video.
  void fill() {
    Record record(folder_, inputs_, {.base = "bench"});
    inputs_.each([&](size_t, const core::Input& input) {
      for (int64_t clip = 0; clip < kClips; ++clip) {
        const std::string name = file_of(input.url, clip), key = name.substr(0, name.find('.'));
        record.end({{"key", key},
                    {"end", "kept"},
                    {"parent", input.key},
                    {"consumed", false},
                    {"facts", facts(input.key, clip)}},
                   {1, {input.key}, {input.key}}, {{name, 0}});
      }
      record.end({{"key", input.key},
                  {"end", "kept"},
                  {"consumed", true},
                  {"facts", json::object()},
                  {"url", input.url}},
                 {0, {input.key}, {}}, json::object());
    });
  }
  // As a run begins that has nothing to do.
  int64_t resume() { return Record(folder_, inputs_, {.base = "bench"}).clips_before(); }
  // As items.jsonl is written.
  int64_t export_all() {
    Record record(folder_, inputs_, {.base = "bench"});
    int64_t bytes = 0;
    record.each(
        [&](const json& line, bool, const json&) { bytes += static_cast<int64_t>(line.dump().size()); });
    return bytes;
  }
  uint64_t size() const { return fs::file_size(folder_ / core::kRecordFile); }

 private:
  static constexpr int64_t kClips = 50;
  fs::path data() const { return folder_ / "data"; }
  static std::string file_of(const std::string& url, int64_t clip) {
    return fmt::format("{}-{:04}.mp4", fs::path(url).stem().string(), clip);
  }
  static json facts(const std::string& video, int64_t clip) {
    return {{"film", video},
            {"start_s", 4.0 * static_cast<double>(clip)},
            {"end_s", 4.0 * static_cast<double>(clip + 1)},
            {"duration_s", 4.0},
            {"width", 1280},
            {"height", 720},
            {"fps", 24.0},
            {"scores", {{"filter.blur", 31.25}, {"filter.motion", 0.125}}}};
  }
  fs::path folder_;
  core::InputRows inputs_;
};

}  // namespace

json bench_record(core::Runtime&, const BenchOptions& options) {
  const int64_t clips = options.quick ? 1000 : 1'000'000;
  core::PeakMemory memory;
  RecordBench bench(clips);
  const double filling = seconds_of_record([&] { bench.fill(); });
  bench.store();  // a run removes files that its record does not name
  int64_t found = 0, bytes = 0;
  const double resuming = seconds_of_record([&] { found = bench.resume(); });
  const double exporting = seconds_of_record([&] { bytes = bench.export_all(); }) - resuming;
  if (found != clips)
    throw Error(KINORA_ERROR_FAILED,
                fmt::format("bench record: {} of {} clips were found again", found, clips));
  return {{"clips", clips},
          {"outcomes_per_second", static_cast<double>(clips) / filling},
          {"resume_seconds", resuming},
          {"export_seconds", exporting},
          {"export_bytes", bytes},
          {"record_bytes", bench.size()},
          {"peak_memory", memory.most()}};
}

}  // namespace kinora
