// WebSockets as a client by hand sees them: RFC 6455, and the server's bounds.
#include <atomic>
#include <mutex>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/web/socket_testing.hpp"

namespace kinora::web {
namespace websocket_test {

using std::chrono::milliseconds;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;
using Frame = SocketClient::Frame;

// The tests see these of all sockets of a server.
struct Seen {
  std::atomic<int> closed{0}, refused{0}, taken{0}, at_once{0};
  std::atomic<bool> overlap{false};
};

// "big N": the text "bytes" and N bytes of binary come back; "throw", "bye": the end; any other text comes back.
class Echo : public SocketHandler {
 public:
  Echo(Seen& seen, std::shared_ptr<Socket> socket) : seen_(seen), socket_(std::move(socket)) {}
  void take(const std::string& message) override {
    if (++seen_.at_once > 1) seen_.overlap = true;
    if (message == "throw") {
      --seen_.at_once;
      throw std::runtime_error("it broke");
    }
    if (message.starts_with("big ")) {
      if (!socket_->binary("bytes", std::string(std::stoul(message.substr(4)), 'b'),
                           [&seen = seen_] { ++seen.taken; }))
        ++seen_.refused;
    } else if (!socket_->text(message)) {
      ++seen_.refused;
    }
    if (message == "bye") socket_->close("as asked");
    --seen_.at_once;
  }
  void closed() override { ++seen_.closed; }

 private:
  Seen& seen_;
  const std::shared_ptr<Socket> socket_;
};

class WebSocket : public testing::Test {
 protected:
  WebSocket() : server_(limits()) {
    server_.set_headers({{"X-Content-Type-Options", "nosniff"}});
    server_.set_guard([](const Request& request, Headers&) -> std::optional<Answer> {
      if (request.parameter("t") == "secret") return std::nullopt;
      return Answer{.status = 401, .body = "no"};
    });
    server_.socket("/echo/{id}", [this](const Request& request, std::shared_ptr<Socket> socket) {
      const std::scoped_lock lock(mutex_);
      id_ = request.places.at("id");
      socket_ = socket;
      return std::make_shared<Echo>(seen_, std::move(socket));
    });
    port_ = server_.bind(0);
    thread_ = std::thread([this] { server_.run([this] { return ends_.load(); }); });
  }
  ~WebSocket() override {
    ends_ = true;
    thread_.join();
  }
  static Limits limits() {
    Limits out;
    out.socket_message = 1000;
    out.socket_queue = 64 << 20;
    out.socket_first = milliseconds(600);
    out.socket_idle = milliseconds(1200);
    out.connections = 4;
    return out;
  }
  SocketClient opened(const std::string& headers = "") const { return SocketClient(port_, kPath, headers); }
  std::string ask(const std::string& head) const {
    Client client(port_);
    client.send(head + "\r\n");
    return client.receive();
  }

  // The last one that opened, with the {id} of its path.
  std::pair<std::shared_ptr<Socket>, std::string> last() {
    const std::scoped_lock lock(mutex_);
    return {socket_, id_};
  }

  static constexpr const char* kPath = "/echo/a?t=secret";
  Seen seen_;
  int port_ = 0;

 private:
  std::mutex mutex_;  // of the two that follow
  std::string id_;
  std::shared_ptr<Socket> socket_;
  Server server_;
  std::atomic<bool> ends_{false};
  std::thread thread_;
};

void expect(const Frame& got, int kind, const std::string& bytes) {
  EXPECT_EQ(got.kind, kind);
  EXPECT_EQ(got.bytes.substr(0, 200), bytes.substr(0, 200));
  EXPECT_EQ(got.bytes.size(), bytes.size());
}

TEST_F(WebSocket, OpensAsTheStandardSays) {
  SocketClient client = opened("Sec-WebSocket-Protocol: one, two\r\n");
  EXPECT_THAT(
      client.answer(),
      AllOf(StartsWith("HTTP/1.1 101 "),
            HasSubstr("Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"),  // of RFC 6455, 1.3
            HasSubstr("Sec-WebSocket-Protocol: one\r\n"), HasSubstr("X-Content-Type-Options: nosniff\r\n")));
  client.text("hello");
  expect(client.next(), SocketClient::kText, "hello");
  EXPECT_EQ(last().second, "a");
}

TEST_F(WebSocket, CarriesMessagesOfEveryLength) {
  SocketClient client = opened();
  for (const size_t size : {0, 1, 125, 126, 127, 1000}) {
    const std::string message(size, 'x');
    client.text(message);
    expect(client.next(), SocketClient::kText, message);
  }
  for (const size_t size : {125, 126, 65535, 65536, 3'000'000}) {
    client.text("big " + std::to_string(size));
    expect(client.next(), SocketClient::kText, "bytes");
    expect(client.next(), SocketClient::kBinary, std::string(size, 'b'));
  }
  EXPECT_TRUE(eventually([&] { return seen_.taken == 5; }));
}

TEST_F(WebSocket, JoinsTheFramesOfAMessageAndAnswersPingsBetweenThem) {
  SocketClient client = opened();
  client.send(SocketClient::kText, "one ", false);
  client.send(SocketClient::kPing, "are you there");
  client.send(SocketClient::kContinued, "two ", false);
  client.send(SocketClient::kContinued, "three", true);
  expect(client.next(), SocketClient::kPong, "are you there");
  expect(client.next(), SocketClient::kText, "one two three");
}

TEST_F(WebSocket, CallsItsHandlerForOneMessageAtATimeInOrder) {
  SocketClient client = opened();
  for (int i = 0; i < 200; ++i) client.text(std::to_string(i));
  for (int i = 0; i < 200; ++i) expect(client.next(), SocketClient::kText, std::to_string(i));
  EXPECT_FALSE(seen_.overlap);
}

TEST_F(WebSocket, RefusesWhatIsNoWebSocket) {
  const std::string get = std::string("GET ") + kPath + " HTTP/1.1\r\nHost: here\r\n";
  EXPECT_THAT(ask(get), StartsWith("HTTP/1.1 426"));
  EXPECT_THAT(ask("GET /echo/a HTTP/1.1\r\nHost: here\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"),
              StartsWith("HTTP/1.1 401"));
  EXPECT_THAT(ask(std::string("POST ") + kPath + " HTTP/1.1\r\nHost: here\r\nConnection: close\r\n"),
              StartsWith("HTTP/1.1 405"));
  const std::string upgrade = get + "Connection: Upgrade\r\nUpgrade: websocket\r\n";
  EXPECT_THAT(ask(upgrade + "Sec-WebSocket-Version: 8\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"),
              StartsWith("HTTP/1.1 4"));
  EXPECT_THAT(ask(upgrade + "Sec-WebSocket-Version: 13\r\n"), StartsWith("HTTP/1.1 4"));
  EXPECT_EQ(last().first, nullptr);
}

TEST_F(WebSocket, ClosesWithTheCodeOfEachFault) {
  struct Case {
    std::string what;
    int code;
    std::function<void(SocketClient&)> send;
  };
  const std::vector<Case> cases{
      {"too long", 1009, [](SocketClient& c) { c.text(std::string(1001, 'x')); }},
      {"too long in frames", 1009,
       [](SocketClient& c) {
         c.send(SocketClient::kText, std::string(900, 'x'), false);
         c.send(SocketClient::kContinued, std::string(900, 'x'));
       }},
      {"binary", 1003, [](SocketClient& c) { c.send(SocketClient::kBinary, "x"); }},
      {"no UTF-8", 1007, [](SocketClient& c) { c.text("\xff\xfe"); }},
      {"not masked", 1002, [](SocketClient& c) { c.raw(std::string("\x81\x01x")); }},
      {"a reserved kind", 1002, [](SocketClient& c) { c.raw(std::string("\x83\x80\0\0\0\0", 6)); }},
      {"the handler throws", 1000, [](SocketClient& c) { c.text("throw"); }},
      {"the handler ends it", 1000, [](SocketClient& c) { c.text("bye"); }},
      {"no message in time", 1008, [](SocketClient&) {}},
      {"the client ends it", 1000,
       [](SocketClient& c) { c.send(SocketClient::kClose, std::string("\x03\xe8", 2)); }}};
  int ended = 0;
  for (const auto& one : cases) {
    {
      SocketClient client = opened();
      one.send(client);
      EXPECT_EQ(client.close_code(), one.code) << one.what;
    }
    ++ended;
    EXPECT_TRUE(eventually([&] { return seen_.closed == ended; })) << one.what;
  }
  EXPECT_FALSE(last().first->text("to nobody"));
}

TEST_F(WebSocket, EndsWithAConnectionThatIsDroppedOrSilent) {
  {
    SocketClient client = opened();
    client.text("x");
    expect(client.next(), SocketClient::kText, "x");
  }
  EXPECT_TRUE(eventually([&] { return seen_.closed == 1; }));
  SocketClient silent = opened();
  silent.text("x");
  expect(silent.next(), SocketClient::kText, "x");
  EXPECT_EQ(silent.next().kind, SocketClient::kPing) << "which it does not answer";
  EXPECT_TRUE(eventually([&] { return seen_.closed == 2; }));
}

TEST_F(WebSocket, KeepsAClientThatAnswersPings) {
  SocketClient client = opened();
  client.text("x");
  expect(client.next(), SocketClient::kText, "x");
  for (int i = 0; i < 3; ++i) {
    const Frame ping = client.next();
    ASSERT_EQ(ping.kind, SocketClient::kPing);
    client.send(SocketClient::kPong, ping.bytes);
  }
  client.text("y");
  expect(client.next(), SocketClient::kText, "y");
}

TEST_F(WebSocket, HoldsLittleForAClientThatDoesNotRead) {
  SocketClient slow = opened();
  const std::string big = "big " + std::to_string(20 << 20);
  slow.text(big);
  slow.text(big);
  slow.text(big);
  SocketClient other = opened();
  for (int i = 0; i < 20; ++i) {  // no one else waits
    other.text("quick");
    expect(other.next(), SocketClient::kText, "quick");
  }
  EXPECT_EQ(seen_.taken, 0) << "20 MiB are more than the system takes";
  slow.text(big);
  EXPECT_TRUE(eventually([&] { return seen_.refused == 1 && seen_.closed == 1; }));
}

TEST_F(WebSocket, CountsAsAConnection) {
  std::vector<std::unique_ptr<SocketClient>> all;
  for (int i = 0; i < 4; ++i) {
    all.push_back(std::make_unique<SocketClient>(port_, kPath));
    EXPECT_THAT(all.back()->answer(), StartsWith("HTTP/1.1 101"));
    all.back()->text("x");
  }
  SocketClient fifth = opened();
  EXPECT_EQ(fifth.answer(), "") << "all four are in use";
  all.clear();
  EXPECT_TRUE(eventually([&] { return seen_.closed == 4; }));
  EXPECT_TRUE(eventually([&] { return !opened().answer().empty(); }));
}

}  // namespace websocket_test
}  // namespace kinora::web
