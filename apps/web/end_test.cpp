// How the server ends: what has begun goes on, and nothing else begins.
#include <atomic>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/web/socket_testing.hpp"

namespace kinora::web {
namespace end_test {

using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

class Silent : public SocketHandler {
 public:
  void take(const std::string&) override {}
  void closed() override {}
};

class ServerEnd : public testing::Test {
 protected:
  ServerEnd() {
    server_.get("/text", [](const Request&) { return Answer{.body = "text"}; });
    server_.get("/grows", [this](const Request&) {
      return Answer{.next = [this, n = 0]() mutable -> std::optional<std::string> {
        if (n == 1 && !grown_) return std::nullopt;
        return n++ < 2 ? "part" : "";
      }};
    });
    server_.socket("/socket",
                   [](const Request&, const std::shared_ptr<Socket>&) { return std::make_shared<Silent>(); });
    port_ = server_.bind(0);
    thread_ = std::thread([this] {
      server_.run([this, has_ended = false]() mutable {
        if (ends_ && !std::exchange(has_ended, true)) server_.end("the last message");
        is_ending_ = has_ended;
        return is_over_ || (has_ended && server_.open_connections() == 0);
      });
      is_over_ = true;
    });
  }
  ~ServerEnd() override {
    ends_ = true;
    is_over_ = true;
    thread_.join();
  }
  void end() {
    ends_ = true;
    EXPECT_TRUE(eventually([this] { return is_ending_.load(); }));
  }

  int port_ = 0;
  std::atomic<bool> grown_{false}, ends_{false}, is_ending_{false}, is_over_{false};

 private:
  Server server_;
  std::thread thread_;
};

TEST_F(ServerEnd, LetsAnAnswerGoOnAndTakesNothingNew) {
  Client idle(port_), viewer(port_);
  idle.send("GET /text HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_THAT(idle.receive("text"), HasSubstr("Connection: keep-alive"));
  viewer.send("GET /grows HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_THAT(viewer.receive("part\r\n"), EndsWith("\r\n\r\n4\r\npart\r\n"));
  end();
  EXPECT_EQ(idle.receive(), "");  // the connection is closed
  Client late(port_);
  late.send("GET /text HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(late.receive(), "");
  EXPECT_FALSE(is_over_);
  grown_ = true;
  EXPECT_EQ(viewer.receive(), "4\r\npart\r\n0\r\n\r\n");
  EXPECT_TRUE(eventually([this] { return is_over_.load(); }));
}

TEST_F(ServerEnd, TellsWebSocketsAndClosesThemAsGoingAway) {
  SocketClient client(port_, "/socket");
  EXPECT_THAT(client.answer(), StartsWith("HTTP/1.1 101"));
  client.text("hello");
  end();
  const auto last = client.next();
  EXPECT_EQ(last.kind, SocketClient::kText);
  EXPECT_EQ(last.bytes, "the last message");
  EXPECT_EQ(client.close_code(), 1001);
  EXPECT_TRUE(eventually([this] { return is_over_.load(); }));
}

}  // namespace end_test
}  // namespace kinora::web
