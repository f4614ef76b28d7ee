#include "apps/planner/calibrate.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <ctime>
#include <fstream>
#include <thread>
#include <unistd.h>

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "core/base/paths.hpp"
#include "kinora/memory.hpp"

namespace kinora::core::plan {
namespace {

using nlohmann::json;
using Clock = std::chrono::steady_clock;

double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

class Socket {
 public:
  explicit Socket(int fd) : fd_(fd) {
    if (fd < 0) throw Error(KINORA_ERROR_FAILED, std::string("calibrate: loopback: ") + std::strerror(errno));
    const int one = 1;
    ::setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  ~Socket() { ::close(fd_); }
  int fd() const { return fd_; }

  bool write(const char* data, size_t size) const {
    for (size_t done = 0; done < size;) {
      const auto n = ::send(fd_, data + done, size - done, MSG_NOSIGNAL);
      if (n <= 0) return false;
      done += static_cast<size_t>(n);
    }
    return true;
  }
  bool read(char* data, size_t size) const {
    for (size_t done = 0; done < size;) {
      const auto n = ::recv(fd_, data + done, size - done, 0);
      if (n <= 0) return false;
      done += static_cast<size_t>(n);
    }
    return true;
  }

 private:
  int fd_;
};

constexpr size_t kLong = size_t{32} << 20;
constexpr int kShort = 500;

// Echoes short messages, then acknowledges long ones.
void answer(int listener) {
  const int fd = ::accept(listener, nullptr, nullptr);
  if (fd < 0) return;
  const Socket socket(fd);
  std::vector<char> buffer(kLong);
  for (int i = 0; i < kShort; ++i)
    if (!socket.read(buffer.data(), 8) || !socket.write(buffer.data(), 8)) return;
  while (socket.read(buffer.data(), kLong) && socket.write(buffer.data(), 8)) {
  }
}

// Links and copies were measured directly, so their rates need no reduction.
Efficiency measured_rates(double share) {
  Efficiency e;
  e.matrix = e.attention = share, e.link = e.memory = 1, e.runtime_bytes = 3e8;
  return e;
}

}  // namespace

// Uses processor time, like the products, so that other work on the machine does not count.
double copy_rate() {
  const size_t size = size_t{64} << 20;
  std::vector<char> from(size, 1), to(size, 2);
  double best = 1e30;
  for (int i = 0; i < 5; ++i) {
    const auto start = std::clock();
    std::memcpy(to.data(), from.data(), size);
    best = std::min(best, static_cast<double>(std::clock() - start + 1) / CLOCKS_PER_SEC);
    from[static_cast<size_t>(i)] = to[size - 1];
  }
  return 2 * static_cast<double>(size) / best;
}

Loopback loopback() {
  const Socket listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  auto* where = reinterpret_cast<sockaddr*>(&address);
  if (::bind(listener.fd(), where, length) || ::listen(listener.fd(), 1) ||
      ::getsockname(listener.fd(), where, &length))
    throw Error(KINORA_ERROR_FAILED, std::string("calibrate: loopback: ") + std::strerror(errno));
  std::jthread other;
  Loopback out{1e30, 0};
  {
    const Socket socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (::connect(socket.fd(), where, length))
      throw Error(KINORA_ERROR_FAILED, std::string("calibrate: loopback: ") + std::strerror(errno));
    other = std::jthread(answer, listener.fd());
    std::vector<char> buffer(kLong, 1);
    bool ok = true;
    for (int i = 0; ok && i < kShort; ++i) {
      const auto start = Clock::now();
      ok = socket.write(buffer.data(), 8) && socket.read(buffer.data(), 8);
      out.latency = std::min(out.latency, since(start) / 2);
    }
    for (int i = 0; ok && i < 4; ++i) {
      const auto start = Clock::now();
      ok = socket.write(buffer.data(), kLong) && socket.read(buffer.data(), 8);
      out.rate = std::max(out.rate, static_cast<double>(kLong) / since(start));
    }
    if (!ok) throw Error(KINORA_ERROR_FAILED, "calibrate: loopback: the connection broke");
  }
  return out;
}

Machine measure(double product, double share) {
  const double cores = std::max(1u, std::thread::hardware_concurrency());
  const auto memory = static_cast<double>(memory_of_machine());
  const Loopback wire = loopback();
  Machine m;
  m.gpu = {"here", product, memory / cores, copy_rate(), wire.rate, wire.rate, 0};
  m.efficiency = measured_rates(share);
  m.latency = wire.latency;
  return m;
}

std::filesystem::path machine_file() {
  const std::string cache = environment("XDG_CACHE_HOME");
  const std::filesystem::path folder =
      cache.empty() ? std::filesystem::path(environment("HOME")) / ".cache" : std::filesystem::path(cache);
  return folder / "kinora" / "machine.json";
}

json json_of(const Machine& m) {
  return {{"peak", m.gpu.peak}, {"memory", m.gpu.memory}, {"memory_bandwidth", m.gpu.memory_bandwidth},
          {"link", m.gpu.link}, {"latency", m.latency},   {"matrix", m.efficiency.matrix}};
}

Result<Machine> read_machine(const std::filesystem::path& file) {
  std::ifstream in(file);
  if (!in)
    return fail(KINORA_ERROR_INVALID, "{}: this machine is not measured; run kinora plan --calibrate",
                file.string());
  const json j = json::parse(in, nullptr, false);
  Machine m;
  m.gpu.name = "here";
  double share = 0;
  const auto number = [&](const char* key, double& to) {
    if (!j.is_object() || !j.contains(key) || !j[key].is_number() || !(j[key].get<double>() > 0))
      return false;
    to = j[key];
    return true;
  };
  if (!number("peak", m.gpu.peak) || !number("memory", m.gpu.memory) || !number("link", m.gpu.link) ||
      !number("memory_bandwidth", m.gpu.memory_bandwidth) || !number("latency", m.latency) ||
      !number("matrix", share))
    return fail(KINORA_ERROR_INVALID, "{}: damaged; run kinora plan --calibrate again", file.string());
  m.gpu.network = m.gpu.link;
  m.efficiency = measured_rates(share);
  return m;
}

}  // namespace kinora::core::plan
