// For tests: a server on loopback that falls silent, and calls of a storage that wait for it and are interrupted.
#pragma once
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <map>
#include <poll.h>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "kinora/storage.hpp"

namespace kinora::ranged {

// Takes every connection and request, and answers only the first, which is for the first bytes of an object.
class SilentServer {
 public:
  static constexpr int kSize = 10'000'000;  // bytes of the object
  SilentServer() {
    setenv("no_proxy", "*", 1);
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof at;
    const bool listens = bind(listener_, reinterpret_cast<sockaddr*>(&at), size) == 0 &&
                         getsockname(listener_, reinterpret_cast<sockaddr*>(&at), &size) == 0 &&
                         listen(listener_, 16) == 0;
    EXPECT_TRUE(listens);
    address = "127.0.0.1:" + std::to_string(ntohs(at.sin_port));
    thread_ = std::thread([this] { serve(); });
  }
  SilentServer(const SilentServer&) = delete;
  SilentServer& operator=(const SilentServer&) = delete;
  ~SilentServer() {
    ends_ = true;
    thread_.join();
  }
  int requests() const { return requests_; }
  std::string address;

 private:
  void serve() {
    std::map<int, std::string> clients;  // what each has sent since its last request
    while (!ends_) {
      std::vector<pollfd> sockets{{listener_, POLLIN, 0}};
      for (const auto& [client, text] : clients) sockets.push_back({client, POLLIN, 0});
      if (poll(sockets.data(), sockets.size(), 20) <= 0) continue;
      if (sockets[0].revents) clients[accept(listener_, nullptr, nullptr)];
      for (size_t i = 1; i < sockets.size(); ++i)
        if (sockets[i].revents && !take(sockets[i].fd, clients[sockets[i].fd])) {
          close(sockets[i].fd);
          clients.erase(sockets[i].fd);
        }
    }
    for (const auto& [client, text] : clients) close(client);
    close(listener_);
  }
  // False: the client has gone.
  bool take(int client, std::string& text) {
    char some[4096];
    const ssize_t n = recv(client, some, sizeof some, 0);
    if (n <= 0) return false;
    text.append(some, static_cast<size_t>(n));
    if (text.find("\r\n\r\n") == text.npos) return true;
    text.clear();
    if (requests_++ > 0) return true;
    const std::string answer =
        "HTTP/1.1 206 Partial Content\r\nContent-Length: 9\r\nContent-Range: bytes 0-8/" +
        std::to_string(kSize) + "\r\nETag: \"one\"\r\n\r\nsome text";
    send(client, answer.data(), answer.size(), MSG_NOSIGNAL);
    return true;
  }
  const int listener_ = socket(AF_INET, SOCK_STREAM, 0);
  std::atomic<int> requests_{0};
  std::atomic<bool> ends_{false};
  std::thread thread_;
};

// Makes the calls at the same time, each of which sends one request that is not answered, interrupts the storage as
// the host does, again and again, and expects that each call is cancelled soon.
inline void expect_interrupted(Storage& storage, const SilentServer& server,
                               const std::map<std::string, std::function<void()>>& calls) {
  using Clock = std::chrono::steady_clock;
  const auto seconds_since = [](Clock::time_point then) {
    return std::chrono::duration<double>(Clock::now() - then).count();
  };
  const int before = server.requests();
  std::atomic<size_t> ended{0};
  std::map<std::string, std::string> how;
  std::vector<std::thread> threads;
  for (const auto& [name, call] : calls)
    threads.emplace_back([&ended, &to = how[name], &call = call] {
      try {
        call();
        to = "it returned";
      } catch (const Error& e) {
        to = e.code() == KINORA_ERROR_CANCELLED ? "cancelled" : e.what();
      }
      ++ended;
    });
  auto start = Clock::now();
  while (server.requests() < before + static_cast<int>(calls.size()) && seconds_since(start) < 5)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(ended, 0U) << "calls that did not wait";
  start = Clock::now();
  for (; ended < calls.size(); std::this_thread::sleep_for(std::chrono::milliseconds(50)))
    storage.interrupt();
  EXPECT_LT(seconds_since(start), 2) << "libcurl asks once a second";
  for (auto& one : threads) one.join();
  for (const auto& [name, end] : how) EXPECT_EQ(end, "cancelled") << name;
}

}  // namespace kinora::ranged
