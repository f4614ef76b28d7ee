// stage/faulty: fails its process in the ways a decoder may. For tests.
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <thread>
#include <unistd.h>
#include <utility>

#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#ifdef __SSE__
#include <xmmintrin.h>
#endif

#include "kinora/plugin.hpp"
#include "kinora/stage.hpp"
#include "kinora/tensor.hpp"

namespace {

using kinora::Emit;
using kinora::Sample;

class Faulty final : public kinora::Stage {
 public:
  struct Options {
    std::string how = "crash", when = "bad", where = "process", once, tells, key_env, starts, called, mutters;
    int64_t clips = 0, milliseconds = 0, batch = 0, says = 0, ordered = 0, prints = 0, sets = 0;
    bool holds = false, isolated = true, keeps = false, counts = false;
  };
  static void describe(kinora::Describe<Options>& d) {
    d.name("faulty")
        .help("Fails at samples whose key contains a word, in one of many ways; for tests")
        .draws();
    d.option("how", &Options::how)
        .choices({"none", "crash", "abort", "exit", "hang", "poll", "allocate", "share", "error", "stop",
                  "noise", "draw", "child", "kill", "close", "heavy", "surroundings"})
        .help(
            "child: starts a process that takes 600 MiB of memory; heavy: takes 200 MiB and keeps them; "
            "noise: requests noise without a shape; draw: stores three numbers of noise in field drawn; "
            "surroundings: changes the umask and the modes of floating-point arithmetic");
    d.option("when", &Options::when).help("word in the key");
    d.option("where", &Options::where)
        .choices({"process", "late", "batch", "constructor", "resources", "finish", "end", "number"})
        .help(
            "late: after the sample was emitted; batch: when the kept samples are emitted; finish: after "
            "half of them are emitted; end: after all are emitted; number: resources() returns NaN");
    d.option("once", &Options::once)
        .path()
        .help("a file: fails only while it does not exist, and creates it");
    d.option("clips", &Options::clips)
        .range(0, 1000)
        .help("samples made from each input, half of them before the failure");
    d.option("milliseconds", &Options::milliseconds).range(0, 100000).help("time that each sample takes");
    d.option("holds", &Options::holds).help("keeps samples back until finish()");
    d.option("batch", &Options::batch)
        .range(0, 1000)
        .help("number of samples to keep back before they are emitted");
    d.option("ordered", &Options::ordered).range(0, 2).help("value of `ordered` in resources()");
    d.option("says", &Options::says).range(0, 1000).help("lines written to stderr before the failure");
    d.option("mutters", &Options::mutters)
        .help("words written to stderr with each sample, without a newline");
    d.option("prints", &Options::prints)
        .range(0, 1000)
        .help("lines printed to stdout before the failure, with an invalid UTF-8 byte");
    d.option("sets", &Options::sets).range(0, 1 << 30).help("bytes of the field shots.json set in the input");
    d.option("counts", &Options::counts)
        .help("writes the number of samples seen into field count, state over all samples, and no pid");
    d.option("keeps", &Options::keeps).help("does not emit its input");
    d.option("starts", &Options::starts)
        .path()
        .help("file for the ids of two sleeping processes started before the failure");
    d.option("called", &Options::called).help("key of all samples that it makes");
    d.option("isolated", &Options::isolated).help("declares that it needs a process of its own");
    d.option("tells", &Options::tells).help("environment variable whose value goes into field told");
    d.option("key_env", &Options::key_env).help("environment variable that the stage declares as needed");
  }
  explicit Faulty(const Options& o) : options_(o) {
    if (o.where == "constructor") fail_to_begin();
  }

  void process(Sample in, const Emit& emit, const kinora::Run& run) override {
    std::fputs(options_.mutters.c_str(), stderr);
    in.set("seen", "yes");  // kept if the input fails or is not emitted
    if (options_.counts) in.set("count", std::to_string(++seen_));
    if (options_.sets > 0) in.set("shots.json", std::string(static_cast<size_t>(options_.sets), '7'));
    for (int64_t i = 0; i < options_.milliseconds; ++i) {
      run.check_cancelled();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    for (int64_t i = 0; i < options_.clips; ++i) {
      if (i == options_.clips / 2 && options_.where == "process") fail_at(in, run);
      Sample clip = in.clone(options_.called.empty() ? std::string(in.key()) + "-" + std::to_string(i)
                                                     : options_.called);
      clip.set("txt", "clip " + std::to_string(i));
      emit(std::move(clip));
    }
    if (options_.clips == 0 && options_.where == "process") fail_at(in, run);
    if (options_.how == "draw") draw(in, run);
    if (options_.keeps) return;
    if (!options_.counts) in.set("pid", std::to_string(::getpid()));
    if (const char* value = std::getenv(options_.tells.c_str())) in.set("told", value);
    if (options_.holds || options_.batch > 0) {
      held_.push_back(std::move(in));
      if (static_cast<int64_t>(held_.size()) == options_.batch) return finish(emit, run);
      emit.hold();
    } else {
      emit(in);
      if (options_.where == "late") fail_at(in, run);
    }
  }
  void finish(const Emit& emit, const kinora::Run& run) override {
    for (const auto& s : held_)
      if (options_.where == "batch") fail_at(s, run);
    const size_t half = held_.size() / 2;
    for (size_t i = 0; auto& s : std::exchange(held_, {})) {
      if (options_.where == "finish" && i++ == half)
        throw options_.how == "stop" ? kinora::Error(KINORA_ERROR_REFUSED, "the key is refused")
                                     : kinora::Error(KINORA_ERROR_IO, "the index is broken");
      emit(std::move(s));
    }
    if (options_.where == "end") fail_at(Sample(options_.when), run);
  }
  kinora_resources resources() const override {
    if (options_.where == "resources") ::raise(SIGSEGV);
    const double cores = options_.where == "number" ? std::numeric_limits<double>::quiet_NaN() : 1.0;
    return {sizeof(kinora_resources),
            static_cast<uint32_t>(options_.ordered),
            cores,
            0.0,
            0,
            options_.isolated ? 1u : 0u,
            0,
            0,
            0};
  }

 private:
  void fail_to_begin() const {
    if (!options_.once.empty()) {
      if (std::filesystem::exists(options_.once)) return;
      std::ofstream(options_.once) << "failed";
    }
    while (options_.how == "hang") ::pause();
    if (options_.how == "error") throw kinora::Error(KINORA_ERROR_FAILED, "the model is broken");
    ::raise(options_.how == "kill" ? SIGKILL : SIGSEGV);
  }
  // One is another program, the other inherits everything of this process, including its sockets.
  void start_processes() const {
    std::ofstream ids(options_.starts, std::ios::app);
    for (const bool other : {false, true}) {
      const pid_t id = ::fork();
      if (id != 0) {
        ids << id << "\n";
        continue;
      }
      if (other) ::execlp("sleep", "sleep", "600", nullptr);
      for (;;) ::pause();
    }
  }
  static void draw(Sample& in, const kinora::Run& run) {
    const auto made =
        kinora::Tensor::adopt(run.noise("faulty.draw", kinora::tensor({0, 0, 0}, {1, 3}).get()));
    std::string text;
    for (int i = 0; i < 3; ++i) text += std::to_string(made.data<double>()[i]) + "\n";
    in.set("drawn", text);
  }
  static void wait_for_child(const kinora::Run& run) {
    const pid_t child = ::fork();
    std::vector<char*> memory;
    for (int i = 0; child == 0; i = std::min(i + 1, 600)) {
      if (i < 600) std::memset(memory.emplace_back(new char[1 << 20]), 1, 1 << 20);
      ::usleep(1000);
    }
    for (int i = 0; i < 5000; ++i) {
      run.check_cancelled();
      ::usleep(1000);
    }
    ::kill(child, SIGKILL);
  }
  void fail_at(const Sample& in, const kinora::Run& run) const {
    if (in.key().find(options_.when) == std::string_view::npos) return;
    if (!options_.once.empty()) {
      if (std::filesystem::exists(options_.once)) return;
      std::ofstream(options_.once) << "failed";
    }
    if (!options_.starts.empty()) start_processes();
    if (options_.says > 0) kinora::log(kinora::Log::info, "faulty is about to fail");
    for (int64_t i = 0; i < options_.says; ++i)
      std::fprintf(stderr, "line %d of stderr\n", static_cast<int>(i));
    for (int64_t i = 0; i < options_.prints; ++i)
      std::printf("line %d of stdout \xff\n", static_cast<int>(i));
    if (options_.how == "crash") ::raise(SIGSEGV);
    if (options_.how == "close") ::shutdown(3, SHUT_RDWR);  // as if another library owned this descriptor
    if (options_.how == "kill") ::raise(SIGKILL);
    if (options_.how == "abort") std::abort();
    if (options_.how == "exit") ::_exit(3);
    if (options_.how == "hang" || options_.how == "close")
      for (;;) ::pause();
    while (options_.how == "poll") {
      run.check_cancelled();
      ::usleep(1000);
    }
    if (options_.how == "noise") run.noise("k", nullptr);
    if (options_.how == "surroundings") {
      ::umask(0777);
#ifdef __SSE__
      _mm_setcsr(_mm_getcsr() | 0x8040);  // denormal numbers are 0
#endif
    }
    if (options_.how == "child") wait_for_child(run);
    if (options_.how == "heavy") {
      static std::vector<std::vector<char>> kept;
      kept.emplace_back(200 << 20, 1);
      for (int i = 0; i < 300; ++i) {
        run.check_cancelled();
        ::usleep(1000);
      }
    }
    const std::vector<char> piece(1 << 20, 1);
    for (int file = options_.how == "share" ? ::memfd_create("faulty", 0) : -1; file >= 0;)
      if (::write(file, piece.data(), piece.size()) < 0) ::_exit(4);
    if (options_.how == "error") throw kinora::Error(KINORA_ERROR_DATA, "bad bytes");
    if (options_.how == "stop") throw kinora::Error(KINORA_ERROR_REFUSED, "the key is refused");
    std::vector<char*> memory;
    while (options_.how == "allocate") {
      memory.push_back(new char[1 << 20]);
      std::memset(memory.back(), 1, 1 << 20);
    }
  }
  Options options_;
  std::vector<Sample> held_;
  int64_t seen_ = 0;
};

}  // namespace
KINORA_COMPONENT(Faulty)
KINORA_PLUGIN(Faulty, Together, Pairs, StartsLate)
