// kinora plugins validate: the checks of each library, in a child process of its own.
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <iostream>
#include <poll.h>
#include <unistd.h>

#include <boost/program_options.hpp>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "apps/kinora/command.hpp"
#include "apps/kinora/plugins_check.hpp"
#include "core/workers/channel.hpp"

namespace kinora {
namespace {

namespace fs = std::filesystem;
namespace po = boost::program_options;
using core::Descriptor;
using core::json;
using Clock = std::chrono::steady_clock;

std::string text_of(const json& of) { return of.dump(-1, ' ', false, json::error_handler_t::replace); }

// Writes a line for the begin and the end of each check, and the last one, {"over": true}, when all are done:
// a process that ends without it was ended by the plugin, whatever its exit code.
[[noreturn]] void check_as_child(const fs::path& library, int results, int output) {
  const rlimit none{0, 0};
  ::setrlimit(RLIMIT_CORE, &none);
  ::dup2(output, STDOUT_FILENO);
  ::dup2(output, STDERR_FILENO);
  const auto say = [results](const json& line) {
    const std::string text = text_of(line) + "\n";
    for (size_t at = 0; at < text.size();) {
      const ssize_t n = ::write(results, text.data() + at, text.size() - at);
      if (n <= 0 && errno != EINTR) ::_exit(kFailed);
      at += static_cast<size_t>(std::max<ssize_t>(0, n));
    }
  };
  check_plugin(
      library,
      [&](const std::string& what) {
        say({{"begins", what}});
      },
      [&](const Check& c) {
        say({{"check", c.what}, {"ok", c.good}, {"message", c.why}});
      });
  std::fflush(stdout);
  say({{"over", true}});
  ::_exit(kDone);
}

// The checks of one library as a child process reports them.
class Validated {
 public:
  Validated(const fs::path& library, double timeout) : timeout_(timeout) {
    int ends[2];
    output_ = Descriptor(::memfd_create("kinora-validate", MFD_CLOEXEC));
    if (::pipe2(ends, O_CLOEXEC) != 0 || !output_)
      throw Error(KINORA_ERROR_IO, std::string("plugins validate: ") + std::strerror(errno));
    results_ = Descriptor(ends[0]);
    Descriptor theirs(ends[1]);
    std::cout.flush();
    child_ = ::fork();
    if (child_ < 0)
      throw Error(KINORA_ERROR_FAILED, std::string("plugins validate: ") + std::strerror(errno));
    if (child_ == 0) {
      ::setpgid(0, 0);
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      check_as_child(library, theirs.get(), output_.get());
    }
    ::setpgid(child_, child_);  // both do: neither waits for the other
  }
  Validated(const Validated&) = delete;
  Validated& operator=(const Validated&) = delete;
  ~Validated() { end(); }

  std::vector<Check> checks() {
    const auto limit = Clock::now() + std::chrono::duration<double>(timeout_);
    bool is_late = false, is_gone = false;
    while (!is_over_ && !is_late && !is_gone) {
      // In this order: what it wrote before its end is read after it.
      is_gone = has_ended();
      is_late = Clock::now() > limit;
      read(is_gone ? 0 : 20);
    }
    const int status = end();
    const std::string said = last_line();
    if (!is_over_)
      checks_.push_back(
          {now_, false,
           (is_late && !is_gone ? fmt::format("it did not end within {:g} s (--timeout)", timeout_)
                                : how(status)) +
               (said.empty() ? "" : "; its last line was: " + said) +
               "; code of the plugin did so: a static constructor, its entry or describe(); fix it"});
    return std::move(checks_);
  }

 private:
  bool has_ended() const {
    siginfo_t info{};
    return ::waitid(P_PID, static_cast<id_t>(child_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid == child_;
  }

  static std::string how(int status) {
    if (!WIFSIGNALED(status))
      return fmt::format("it ended its process by itself with code {}", WEXITSTATUS(status));
    const char* name = ::sigabbrev_np(WTERMSIG(status));
    return fmt::format("its process was killed by signal {} (SIG{})", WTERMSIG(status), name ? name : "?");
  }

  // Also kills what the plugin has started: they are one group.
  int end() {
    if (child_ < 0) return 0;
    if (::kill(-child_, SIGKILL) != 0) ::kill(child_, SIGKILL);
    int status = 0;
    while (::waitpid(child_, &status, 0) < 0 && errno == EINTR) {
    }
    child_ = -1;
    return status;
  }

  void read(int milliseconds) {
    for (pollfd waits{results_.get(), POLLIN, 0}; ::poll(&waits, 1, milliseconds) > 0; milliseconds = 0) {
      char piece[4096];
      const ssize_t n = ::read(results_.get(), piece, sizeof piece);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) {
        ::usleep(1000);  // the child has closed it, and ends
        break;
      }
      text_.append(piece, static_cast<size_t>(n));
    }
    for (size_t end; (end = text_.find('\n')) != text_.npos; text_.erase(0, end + 1))
      take(text_.substr(0, end));
  }

  void take(const std::string& line) {
    const json told = json::parse(line);
    if (told.contains("over")) is_over_ = true;
    if (told.contains("begins")) now_ = told.at("begins");
    if (told.contains("check")) checks_.push_back({told.at("check"), told.at("ok"), told.at("message")});
  }

  // What the plugin and its libraries wrote goes to stderr.
  std::string last_line() const {
    std::string all;
    char piece[4096];
    for (ssize_t n; (n = ::pread(output_.get(), piece, sizeof piece, static_cast<off_t>(all.size()))) > 0;)
      all.append(piece, static_cast<size_t>(n));
    std::cerr << all;
    all.erase(all.find_last_not_of(" \n") + 1);
    return all.substr(all.rfind('\n') + 1, 1000);  // npos + 1 is 0
  }

  const double timeout_;
  Descriptor results_, output_;
  pid_t child_ = -1;
  std::string text_, now_ = "it can be read";
  bool is_over_ = false;
  std::vector<Check> checks_;
};

// The libraries of a folder: all libNAME.so next to a plugin.toml below it. A plugin.toml without one is a
// plugin too, whose library is missing.
std::vector<fs::path> plugins_below(const fs::path& folder) {
  std::vector<fs::path> out;
  for (const auto& item : fs::recursive_directory_iterator(folder)) {
    if (item.path().filename() != "plugin.toml") continue;
    const size_t before = out.size();
    for (const auto& beside : fs::directory_iterator(item.path().parent_path()))
      if (beside.path().extension() == ".so") out.push_back(beside.path());
    const fs::path home = item.path().parent_path();
    if (out.size() == before) out.push_back(home / ("lib" + home.filename().string() + ".so"));
  }
  std::sort(out.begin(), out.end());
  return out;
}

struct Asked {
  fs::path path;
  double timeout = 60;
  bool as_json = false;
};

Asked asked_of(const Arguments& arguments) {
  po::options_description known;
  known.add_options()("json", "")("timeout", po::value<double>()->default_value(60), "")(
      "path", po::value<std::string>()->required(), "");
  po::positional_options_description words;
  words.add("path", 1);
  po::variables_map values;
  po::store(po::command_line_parser(arguments).options(known).positional(words).run(), values);
  if (values.count("path") == 0)
    throw Error(KINORA_ERROR_INVALID,
                "plugins validate needs a FILE.so or a folder; see kinora plugins --help");
  Asked out{fs::absolute(values["path"].as<std::string>()), values["timeout"].as<double>(),
            values.count("json") > 0};
  if (!(out.timeout > 0)) throw Error(KINORA_ERROR_INVALID, "plugins validate: --timeout must be above 0 s");
  return out;
}

}  // namespace

int plugins_validate(core::Runtime&, const Arguments& arguments) {
  const Asked asked = asked_of(arguments);
  const bool is_folder = fs::is_directory(asked.path);
  const auto libraries = is_folder ? plugins_below(asked.path) : std::vector<fs::path>{asked.path};
  if (libraries.empty())
    return complain(kUsage, asked.path.string() + ": no plugin.toml in it or below it, so no plugin");
  bool all_good = true;
  json out = json::array();
  for (const auto& library : libraries) {
    bool good = true;
    json listed = json::array();
    if (is_folder && !asked.as_json) std::cout << library.string() << "\n";
    for (const auto& c : Validated(library, asked.timeout).checks()) {
      good = good && c.good;
      listed.push_back({{"check", c.what}, {"ok", c.good}, {"message", c.why}});
      if (!asked.as_json)
        std::cout << (c.good ? "ok      " : "FAILED  ") << c.what << (c.good ? "" : ": " + c.why) << "\n";
    }
    all_good = all_good && good;
    out.push_back({{"library", library.string()}, {"ok", good}, {"checks", std::move(listed)}});
  }
  if (asked.as_json)
    std::cout << (is_folder ? out : out[0]).dump(2, ' ', false, json::error_handler_t::replace) << "\n";
  return all_good ? kDone : kFailed;
}

}  // namespace kinora
