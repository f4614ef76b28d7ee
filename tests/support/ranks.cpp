#include "tests/support/ranks.hpp"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <signal.h>
#include <spawn.h>
#include <sstream>
#include <stdexcept>
#include <thread>
#include <unistd.h>
#include <vector>

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>

namespace kinora::test {

namespace {

// Which call of on_ranks within the running test this is.
int number_of_call() {
  static const testing::TestInfo* last = nullptr;
  static int calls = 0;
  const auto* now = testing::UnitTest::GetInstance()->current_test_info();
  if (now != last) calls = 0;
  last = now;
  return calls++;
}

int free_port() {
  const int s = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in a{};
  a.sin_family = AF_INET;
  a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t n = sizeof a;
  bind(s, reinterpret_cast<sockaddr*>(&a), n);
  getsockname(s, reinterpret_cast<sockaddr*>(&a), &n);
  close(s);
  return ntohs(a.sin_port);
}

// In a child: runs the body and ends the process, without destructors of anything that still talks to other
// ranks.
[[noreturn]] void run_rank(const std::function<void(const Rank&)>& body) {
  const auto number = [](const char* name) { return std::atoi(std::getenv(name)); };
  Rank me{number("KINORA_TEST_RANK"), number("KINORA_TEST_SIZE"), std::getenv("KINORA_TEST_FOLDER"),
          number("KINORA_TEST_PORT")};
  try {
    body(me);
  } catch (const std::exception& e) {
    ADD_FAILURE() << "rank " << me.rank << ": " << e.what();
  }
  std::fflush(nullptr);
  _exit(testing::Test::HasFailure() ? 1 : 0);
}

pid_t start(const Rank& me, int call) {
  const auto* test = testing::UnitTest::GetInstance()->current_test_info();
  const std::string filter = std::string("--gtest_filter=") + test->test_suite_name() + "." + test->name();
  std::vector<std::string> env = {
      "KINORA_TEST_RANK=" + std::to_string(me.rank), "KINORA_TEST_SIZE=" + std::to_string(me.size),
      "KINORA_TEST_CALL=" + std::to_string(call),    "KINORA_TEST_FOLDER=" + me.folder,
      "KINORA_TEST_PORT=" + std::to_string(me.port), "OMP_NUM_THREADS=1"};
  std::vector<char*> environment;
  for (auto& e : env) environment.push_back(e.data());
  for (char** e = environ; *e; ++e) environment.push_back(*e);
  environment.push_back(nullptr);
  const std::string log = me.folder + ".rank" + std::to_string(me.rank);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, 1, log.c_str(), O_CREAT | O_WRONLY | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&files, 1, 2);
  std::string program = "/proc/self/exe", arg = filter, quiet = "--gtest_color=no";
  char* argv[] = {program.data(), arg.data(), quiet.data(), nullptr};
  pid_t pid = -1;
  if (posix_spawn(&pid, program.c_str(), &files, nullptr, argv, environment.data()) != 0) pid = -1;
  posix_spawn_file_actions_destroy(&files);
  return pid;
}

// The process' status, or -1 if it had to be killed at `until`.
int wait_for(pid_t pid, std::chrono::steady_clock::time_point until) {
  int status = 0;
  while (waitpid(pid, &status, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() > until) {
      kill(pid, SIGKILL);
      waitpid(pid, &status, 0);
      return -1;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return status;
}

}  // namespace

void Rank::meet(const std::string& point) const {
  const auto mark = [&](int r) { return std::filesystem::path(folder) / (point + "." + std::to_string(r)); };
  std::ofstream(mark(rank)).put('x');
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  for (int r = 0; r < size; ++r)
    while (!std::filesystem::exists(mark(r))) {
      if (std::chrono::steady_clock::now() > until)
        throw std::runtime_error("rank " + std::to_string(r) + " did not come to '" + point + "'");
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
}

void Rank::launched() const {
  if (size == 1) return alone();
  static int meetings = 0;
  setenv("RANK", std::to_string(rank).c_str(), 1);
  setenv("WORLD_SIZE", std::to_string(size).c_str(), 1);
  setenv("KINORA_RENDEZVOUS", (file() + "." + std::to_string(meetings++)).c_str(), 1);
  setenv("KINORA_TIMEOUT_MS", "60000", 1);
}

void Rank::alone() {
  for (const char* name : {"RANK", "WORLD_SIZE", "KINORA_RENDEZVOUS"}) unsetenv(name);
}

void on_ranks(int size, const std::function<void(const Rank&)>& body, int seconds) {
  const int call = number_of_call();
  if (std::getenv("KINORA_TEST_RANK")) {
    if (std::atoi(std::getenv("KINORA_TEST_CALL")) == call) run_rank(body);
    return;
  }
  std::string folder = (std::filesystem::temp_directory_path() / "kinora-ranks-XXXXXX").string();
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  Rank me{0, size, folder, free_port()};
  std::vector<pid_t> ranks;
  for (me.rank = 0; me.rank < size; ++me.rank) ranks.push_back(start(me, call));
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  for (int r = 0; r < size; ++r) {
    const int status =
        ranks[static_cast<size_t>(r)] < 0 ? -1 : wait_for(ranks[static_cast<size_t>(r)], until);
    const std::string log = folder + ".rank" + std::to_string(r);
    if (status != 0) {
      std::ostringstream text;
      text << std::ifstream(log).rdbuf();
      ADD_FAILURE() << "rank " << r << " of " << size
                    << (status < 0 ? " was killed after " + std::to_string(seconds) + " s" : " failed")
                    << "\n"
                    << text.str();
    }
    std::filesystem::remove(log);
  }
  std::filesystem::remove_all(folder);
}

}  // namespace kinora::test
