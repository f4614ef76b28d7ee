#include "apps/validate/child.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <iostream>
#include <poll.h>
#include <unistd.h>

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "apps/validate/watching_host.hpp"
#include "host/workers/channel.hpp"

namespace kinora {
namespace child {
namespace {

using core::Descriptor;
using core::json;
using Clock = std::chrono::steady_clock;
using Say = std::function<void(const json&)>;

void write_line(int to, const json& line) {
  const std::string text = line.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
  for (size_t at = 0; at < text.size();) {
    const ssize_t n = ::write(to, text.data() + at, text.size() - at);
    if (n <= 0 && errno != EINTR) ::_exit(1);
    at += static_cast<size_t>(std::max<ssize_t>(0, n));
  }
}

// Before the entry, which may be called once only.
void prepare_host(const Check& check) {
  const std::string_view name = check.name;
  watch().offers_nothing = name == "bare-host";
  if (name == "newer-host") grow_host();
  g_host = &watching_host();  // tensors that the check makes itself are counted alike
  note_surroundings();
}

std::string made(const Check& check, const Subject& subject, const core::ComponentSpec* spec,
                 const std::string& folder, const Say& say) {
  if (!spec) return check.of_library(subject);
  prepare_host(check);
  watch().now = [&say](const std::string& call) { say({{"now", call}}); };
  watch().now("its entry");
  PluginTrial trial{subject, *spec, open_watched(subject, *spec), folder, watch().now};
  watch().now(std::string("the check ") + check.name + ", before its first call");
  return check.of_component(trial);
}

void run(const Check& check, const Subject& subject, const core::ComponentSpec* spec,
         const std::string& folder, int results, int output) {
  const rlimit none{0, 0};
  ::setrlimit(RLIMIT_CORE, &none);
  ::dup2(output, STDOUT_FILENO);
  ::dup2(output, STDERR_FILENO);
  const Say say = [results](const json& line) { write_line(results, line); };
  const auto verdict = [&](const char* kind, const std::string& message) {
    std::fflush(stdout);
    say({{"verdict", kind}, {"message", message}});
    ::_exit(0);
  };
  try {
    if (::chdir(folder.c_str()) != 0) throw Error(KINORA_ERROR_IO, folder + ": " + std::strerror(errno));
    verdict("ok", made(check, subject, spec, folder, say));
  } catch (const Skipped& s) {
    verdict("skipped", s.why);
  } catch (const std::exception& e) {
    verdict("failed", e.what());
  }
}

class Child {
 public:
  Child(const Check& check, const Subject& subject, const core::ComponentSpec* spec, double timeout)
      : timeout_(timeout),
        now_(spec ? "the check" : "code of the plugin: a static constructor, its entry or describe()") {
    int ends[2];
    folder_ = (std::filesystem::temp_directory_path() / "kinora-validate-XXXXXX").string();
    if (!::mkdtemp(folder_.data()))
      throw Error(KINORA_ERROR_IO, folder_ + ": cannot be made; set TMPDIR to a folder that you may write");
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
      run(check, subject, spec, folder_, theirs.get(), output_.get());
      ::_exit(1);
    }
    ::setpgid(child_, child_);  // both do: neither waits for the other
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    end();
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  Verdict verdict() {
    const auto limit = Clock::now() + std::chrono::duration<double>(timeout_);
    bool is_late = false, is_gone = false;
    while (!verdict_ && !is_late && !is_gone) {
      // In this order: what it wrote before its end is read after it.
      is_gone = has_ended();
      is_late = Clock::now() > limit;
      read(is_gone ? 0 : 20);
    }
    const int status = end();
    const std::string said = last_line();
    if (verdict_) return *verdict_;
    return {Verdict::Kind::failed,
            (is_late && !is_gone ? fmt::format("it did not end within {:g} s (--timeout)", timeout_)
                                 : how(status)) +
                (said.empty() ? "" : "; its last line was: " + said) + "; it was in " + now_ + "; fix it"};
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
      take(json::parse(text_.substr(0, end)));
  }

  void take(const json& told) {
    if (told.contains("now")) now_ = told.at("now");
    if (!told.contains("verdict")) return;
    const std::string kind = told.at("verdict");
    verdict_ = {kind == "ok"        ? Verdict::Kind::ok
                : kind == "skipped" ? Verdict::Kind::skipped
                                    : Verdict::Kind::failed,
                told.at("message")};
  }

  // The last line of what the plugin and its libraries wrote; all of it goes to stderr.
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
  std::string folder_, text_, now_;
  std::optional<Verdict> verdict_;
};

}  // namespace
}  // namespace child

Verdict run_check(const Check& check, const Subject& subject, const core::ComponentSpec* spec,
                  double timeout) {
  return child::Child(check, subject, spec, timeout).verdict();
}

}  // namespace kinora
