// The check of what a plugin changes in its process: everything else in the process has to live with it.
#include <algorithm>
#include <array>
#include <chrono>
#include <clocale>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <thread>

#include <sys/stat.h>

#include "apps/validate/trial_stage.hpp"
#ifdef __SSE__
#include <xmmintrin.h>
#endif

namespace kinora {
namespace surroundings_of {
namespace {

namespace fs = std::filesystem;

std::string floating_point() {
#ifdef __SSE__
  return fmt::format("MXCSR {:#x}", _mm_getcsr() & 0xffc0);
#else
  return "";
#endif
}

mode_t mask() {
  const mode_t now = ::umask(0);
  ::umask(now);
  return now;
}

// "sets the umask" -> its value: what may not differ after a plugin was here.
std::map<std::string, std::string> look() {
  std::map<std::string, std::string> out;
  out["the modes of floating-point arithmetic (is it linked with -ffast-math?)"] = floating_point();
  out["the umask"] = fmt::format("{:03o}", mask());
  out["the working directory"] = fs::current_path().string();
  out["the locale"] = std::setlocale(LC_ALL, nullptr);
  for (int signal = 1; signal < NSIG; ++signal) {
    struct sigaction action {};
    if (::sigaction(signal, nullptr, &action) != 0) continue;
    out[fmt::format("the handler of signal {}", signal)] =
        fmt::format("{}", reinterpret_cast<const void*>(action.sa_handler));
  }
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);)
    if (line.ends_with("[stack]"))
      out["whether its stack can be executed (link it with -z noexecstack)"] =
          line.substr(line.find(' ') + 1, 4);
  return out;
}

size_t threads() {
  return static_cast<size_t>(
      std::distance(fs::directory_iterator("/proc/self/task"), fs::directory_iterator()));
}

std::map<std::string, std::string> before;
size_t threads_before = 0;

// Makes an instance and lets it work, if it is a stage.
void use(PluginTrial& t) {
  const core::Options options = t.options();
  if (t.spec.kind != "stage") {
    struct Maker {
      uint32_t struct_size, reserved;
      void* (*create)(const kinora_host*, const kinora_options*);
      void (*destroy)(void*);
    };
    if (t.spec.kind == "model" || t.spec.kind == "tokenizer" || t.spec.kind == "cache")
      return;  // opened, as it is
    const TrialInstance<Maker> made(t, options);
    return;
  }
  TrialStage stage(t, options);
  for (const auto& s : usual_samples(t, 3)) stage.process(s, "process()");
  stage.finish();
}

std::string check(PluginTrial& t) {
  std::string skipped;
  try {
    use(t);
  } catch (const Skipped& s) {
    skipped = s.why;  // opening it may have changed something all the same
  }
  std::string changed;
  const auto after = look();
  for (const auto& [what, was] : before)
    if (const std::string& now = after.at(what); now != was)
      changed += fmt::format("{}{}: {}, it was {}", changed.empty() ? "" : "; ", what, now, was);
  if (!changed.empty())
    throw Error(KINORA_ERROR_FAILED, "it changes its process: " + changed + "; leave the process as it is");
  // A thread that was joined may be listed for a moment.
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  while (threads() > threads_before && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  const bool has_libtorch =
      t.subject.plugin->tier != core::Tier::stable || (t.spec.kind != "stage" && t.spec.kind != "storage" &&
                                                       t.spec.kind != "source" && t.spec.kind != "engine");
  if (const size_t left = threads(); left > threads_before && !has_libtorch)  // whose threads stay
    throw Error(
        KINORA_ERROR_FAILED,
        fmt::format("{} of its threads still run after destroy(); end them there", left - threads_before));
  if (!skipped.empty()) throw Skipped{skipped};
  return "";
}

constexpr Check kChecks[] = {{"surroundings", kAnyKind,
                              "it leaves its process as it was: floating-point modes, umask, working "
                              "directory, locale, signal handlers, stack, "
                              "threads",
                              false, nullptr, check}};

}  // namespace
}  // namespace surroundings_of

void note_surroundings() {
  surroundings_of::before = surroundings_of::look();
  surroundings_of::threads_before = surroundings_of::threads();
}

std::span<const Check> surroundings_checks() { return surroundings_of::kChecks; }

}  // namespace kinora
