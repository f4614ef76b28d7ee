// kinora bench workers: the cost of running a stage in a separate process.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <unistd.h>

#include "apps/bench/bench.hpp"
#include "core/base/paths.hpp"
#include "core/plugin/host.hpp"
#include "core/plugin/options.hpp"
#include "core/runtime/call.hpp"
#include "host/stages/one_stage.hpp"
#include "host/workers/worker.hpp"

namespace kinora {
namespace {

using nlohmann::json;
using Clock = std::chrono::steady_clock;

// Text to tokens: almost no work, and the sample's other fields pass through.
constexpr const char* kStage = "stage/text.wordpiece";

// A vocabulary file in the stage's format; it is removed with the object.
class Vocabulary {
 public:
  Vocabulary() : path_((std::filesystem::temp_directory_path() / "kinora-bench-XXXXXX").string()) {
    const int fd = mkstemp(path_.data());
    if (fd < 0)
      throw Error(KINORA_ERROR_IO,
                  path_ + ": cannot create a temporary file; set TMPDIR to a writable folder");
    ::close(fd);
    std::ofstream(path_) << "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nboat\nat\nsea\n";
  }
  Vocabulary(const Vocabulary&) = delete;
  Vocabulary& operator=(const Vocabulary&) = delete;
  ~Vocabulary() { std::filesystem::remove(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

Sample sample_of(size_t bytes) {
  Sample out("bench");
  out.set("txt", "a boat at sea");
  if (bytes > 0) out.set("mp4", std::vector<uint8_t>(bytes, 7));
  return out;
}

// Samples per second over about half a second. Every returned byte is read as often as in the same process.
template <class Process>
double rate(size_t bytes, Process&& process) {
  const Sample in = sample_of(bytes);
  const auto start = Clock::now();
  double seconds = 0;
  int n = 0;
  for (; seconds < 0.5 || n < 3; seconds = std::chrono::duration<double>(Clock::now() - start).count(), ++n) {
    core::StageResults results;
    const kinora_emit emit = results.sink();
    check(process(in.clone("bench"), emit));
    if (results.emitted.size() != 1)
      throw Error(KINORA_ERROR_FAILED, "bench workers: the stage emitted no sample");
  }
  return n / seconds;
}

}  // namespace

json bench_workers(core::Runtime& runtime, const BenchOptions& o) {
  const Vocabulary vocabulary;
  const auto component = core::or_throw(runtime.registry().open(kStage));
  const auto options = core::or_throw(core::Options::make(*component.spec, {{"vocab", vocabulary.path()}}));
  const auto& stage = component.table<kinora_stage>();
  void* self = core::made([&] { return stage.create(host(), options.abi()); }, kStage);
  const std::unique_ptr<void, void (*)(void*)> owned(self, stage.destroy);
  const std::string canonical = options.canonical();
  const auto begin = Clock::now();
  core::Worker worker({core::executable_folder() / "kinora", {}},
                      {sizeof(kinora_worker_spec), 0, "bench", kStage, canonical.c_str(), 0, 0, 0, 0});
  const double started = std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
  core::Call call;
  const kinora_run run = core::run_of(call);
  json out{{"start_milliseconds", started}};
  for (const size_t bytes : {size_t{0}, size_t{1} << 20, size_t{16} << 20}) {
    double here = 0, apart = 0;
    for (int i = 0; i < o.repeat; ++i) {
      here = std::max(here, rate(bytes, [&](const Sample& s, const kinora_emit& e) {
                        return stage.process(self, s.get(), &e, &run);
                      }));
      apart = std::max(apart, rate(bytes, [&](const Sample& s, const kinora_emit& e) {
                         return worker.process(s, e, run);
                       }));
    }
    json& line = out["bytes_" + std::to_string(bytes)];
    line = {{"thread_samples_a_second", here},
            {"process_samples_a_second", apart},
            {"added_microseconds", 1e6 / apart - 1e6 / here}};
    if (bytes > 0) line["process_megabytes_a_second"] = apart * static_cast<double>(bytes) / 1e6;
  }
  return out;
}

}  // namespace kinora
