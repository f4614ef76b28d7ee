#include "tests/support/ranks.hpp"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <signal.h>
#include <sstream>
#include <stdexcept>
#include <thread>
#include <unistd.h>
#include <vector>

#include <ATen/Parallel.h>
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

namespace kinora::test {

namespace {

// Index of this call of on_ranks within the running test.
int number_of_call() {
  static const testing::TestInfo* last = nullptr;
  static int calls = 0;
  const auto* now = testing::UnitTest::GetInstance()->current_test_info();
  if (now != last) calls = 0;
  last = now;
  return calls++;
}

// Reserves a loopback port, so that no other process gets it while the object lives; a listener that reuses
// addresses can still bind it.
class HeldPort {
 public:
  HeldPort() {
    const int yes = 1;
    setsockopt(socket_, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    sockaddr_in a{};
    a.sin_family = AF_INET;
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t n = sizeof a;
    bind(socket_, reinterpret_cast<sockaddr*>(&a), n);
    getsockname(socket_, reinterpret_cast<sockaddr*>(&a), &n);
    number_ = ntohs(a.sin_port);
  }
  HeldPort(const HeldPort&) = delete;
  HeldPort& operator=(const HeldPort&) = delete;
  ~HeldPort() { close(socket_); }
  int number() const { return number_; }

 private:
  int socket_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  int number_ = 0;
};

// Socket for requesting ranks; -1 in a rank.
int nursery = -1;

// Turns this process into a rank. `told` has on separate lines the test, the file for its output, then its
// variables.
void become_rank(std::istringstream told) {
  std::string filter, log, variable;
  std::getline(told, filter);
  std::getline(told, log);
  while (std::getline(told, variable))
    setenv(variable.substr(0, variable.find('=')).c_str(), variable.substr(variable.find('=') + 1).c_str(),
           1);
  for (const char* name : {"GTEST_TOTAL_SHARDS", "GTEST_SHARD_INDEX"}) unsetenv(name);
  testing::GTEST_FLAG(filter) = filter;
  testing::GTEST_FLAG(color) = "no";
  const int file = open(log.c_str(), O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0600);
  dup2(file, 1);
  dup2(file, 2);
  close(file);
  at::set_num_threads(1);
}

// Forks a copy of the program before any thread exists. The ranks are copies of it, so libtorch
// is loaded once instead of once per rank. Returns in the program and in the ranks.
void open_nursery() {
  int ends[2];
  auto* made = static_cast<pid_t*>(
      mmap(nullptr, sizeof(pid_t), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0 || made == MAP_FAILED) std::abort();
  prctl(PR_SET_CHILD_SUBREAPER, 1);  // a rank becomes the program's child when the process between them ends
  if (fork() != 0) {
    close(ends[1]);
    nursery = ends[0];
    return;
  }
  close(ends[0]);
  char text[8192];
  for (ssize_t n; (n = recv(ends[1], text, sizeof text, 0)) > 0;) {
    const pid_t between = fork();
    if (between == 0) {
      if (const pid_t rank = fork(); rank != 0) {
        *made = rank;
        _exit(0);
      }
      close(ends[1]);
      return become_rank(std::istringstream(std::string(text, static_cast<size_t>(n))));
    }
    waitpid(between, nullptr, 0);
    send(ends[1], made, sizeof *made, 0);
  }
  _exit(0);
}

// In a child: runs the body and ends the process, without destructors of objects that still communicate with
// other ranks.
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
  std::ostringstream told;
  told << test->test_suite_name() << "." << test->name() << "\n"
       << me.folder << ".rank" << me.rank << "\nKINORA_TEST_RANK=" << me.rank
       << "\nKINORA_TEST_SIZE=" << me.size << "\nKINORA_TEST_CALL=" << call
       << "\nKINORA_TEST_FOLDER=" << me.folder << "\nKINORA_TEST_PORT=" << me.port << "\nOMP_NUM_THREADS=1";
  pid_t pid = -1;
  if (send(nursery, told.str().data(), told.str().size(), 0) < 0 ||
      recv(nursery, &pid, sizeof pid, 0) != sizeof pid)
    return -1;
  return pid;
}

// The process's status, or -1 if it had to be killed at `until`.
int wait_for(pid_t pid, std::chrono::steady_clock::time_point until) {
  int status = 0;
  pid_t ended = 0;
  while ((ended = waitpid(pid, &status, WNOHANG)) == 0) {
    if (std::chrono::steady_clock::now() > until) {
      kill(pid, SIGKILL);
      waitpid(pid, &status, 0);
      return -1;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return ended == pid ? status : -1;
}

}  // namespace

void Rank::meet(const std::string& point) const {
  const auto mark = [&](int r) { return std::filesystem::path(folder) / (point + "." + std::to_string(r)); };
  std::ofstream(mark(rank)).put('x');
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  for (int r = 0; r < size; ++r)
    while (!std::filesystem::exists(mark(r))) {
      if (std::chrono::steady_clock::now() > until)
        throw std::runtime_error("rank " + std::to_string(r) + " did not reach '" + point + "'");
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
}

void Rank::launched() const {
  if (size == 1) return alone();
  setenv("RANK", std::to_string(rank).c_str(), 1);
  setenv("WORLD_SIZE", std::to_string(size).c_str(), 1);
  setenv("KINORA_RENDEZVOUS", tcp().c_str(), 1);  // a file's store looks for news only every 10 ms
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
  const HeldPort port;
  Rank me{0, size, folder, port.number()};
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

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  kinora::test::open_nursery();
  return RUN_ALL_TESTS();
}
