// The server as raw sockets see it: what it answers, and what it takes from a client that means no good.
#include "apps/web/server.hpp"

#include <atomic>
#include <fstream>
#include <thread>
#include <unistd.h>

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "apps/web/client_testing.hpp"

namespace kinora::web {
namespace {

using std::chrono::milliseconds;
using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

class Running {
 public:
  explicit Running(Limits limits = {}) : server_(limits) {
    server_.set_headers({{"X-Content-Type-Options", "nosniff"}});
    server_.set_guard([](const Request& request, Headers& added) -> std::optional<Answer> {
      if (request.parameter("t") != "secret") return Answer{.status = 403, .body = "no"};
      added.emplace_back("Set-Cookie", "a=b");
      return std::nullopt;
    });
    server_.get("/text", [](const Request& r) {
      return Answer{.type = "text/plain", .body = "<" + r.parameter("x") + ">"};
    });
    server_.post("/text",
                 [](const Request& r) { return Answer{.body = std::to_string(r.body.size()) + " bytes"}; });
    server_.get("/throws", [](const Request&) -> Answer { throw std::runtime_error("it broke"); });
    server_.get("/owner", [](const Request& r) { return Answer{.body = "owner " + r.owner()}; });
    server_.get("/stream", [](const Request&) {
      return Answer{
          .next = [n = 0]() mutable { return n < 3 ? "part " + std::to_string(n++) + "\n" : std::string(); }};
    });
    server_.get("/file", [](const Request& r) {
      return file_answer(r, r.parameter("path"), "x/y").value_or(Answer{.status = 404});
    });
    port = server_.bind(0);
    thread_ = std::thread([this] { server_.run([this] { return ends_.load(); }); });
  }
  ~Running() {
    ends_ = true;
    thread_.join();
  }
  std::string get(const std::string& target, const std::string& more = "",
                  const std::string& method = "GET") {
    Client client(port);
    client.send(method + " " + target + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" + more + "\r\n");
    return client.receive();
  }
  int port = 0;

 private:
  Server server_;
  std::atomic<bool> ends_{false};
  std::thread thread_;
};

TEST(WebServer, AnswersWhatItsRoutesSay) {
  Running server;
  EXPECT_THAT(server.get("/text?t=secret&x=a%20b%2Bc"),
              AllOf(StartsWith("HTTP/1.1 200 OK\r\n"), HasSubstr("Content-Type: text/plain\r\n"),
                    HasSubstr("Content-Length: 7\r\n"), HasSubstr("X-Content-Type-Options: nosniff\r\n"),
                    HasSubstr("Set-Cookie: a=b\r\n"), EndsWith("\r\n\r\n<a b+c>")));
  EXPECT_THAT(server.get("/text?t=secret&x=abc", "", "HEAD"),
              AllOf(HasSubstr("Content-Length: 5\r\n"), EndsWith("\r\n\r\n")));
  EXPECT_THAT(server.get("/text?t=wrong"), AllOf(StartsWith("HTTP/1.1 403"), EndsWith("no")));
  EXPECT_THAT(server.get("/text?t=secret&x=%4"), StartsWith("HTTP/1.1 400"));
  EXPECT_THAT(server.get("/none?t=secret"), StartsWith("HTTP/1.1 404"));
  EXPECT_THAT(server.get("/text?t=secret", "", "DELETE"), StartsWith("HTTP/1.1 405"));
  EXPECT_THAT(server.get("/throws?t=secret"), AllOf(StartsWith("HTTP/1.1 500"), HasSubstr("it broke")));
  EXPECT_THAT(
      server.get("/stream?t=secret"),
      AllOf(HasSubstr("chunked"), EndsWith("7\r\npart 0\n\r\n7\r\npart 1\n\r\n7\r\npart 2\n\r\n0\r\n\r\n")));
  EXPECT_THAT(server.get("/owner?t=secret"), EndsWith("owner " + std::to_string(getuid())));
}

TEST(WebServer, KnowsTheOwnerByTheWholeConnection) {
  Running server;
  const std::string me = std::to_string(getuid());
  const End here{INADDR_LOOPBACK, static_cast<uint16_t>(server.port)};
  Client mine(server.port);
  const End end = mine.end();
  EXPECT_EQ(owner_of_client(end, here), me);
  EXPECT_EQ(owner_of_client({end.address + 6, end.port}, here), "");  // its port at another address
  EXPECT_EQ(owner_of_client(end, {here.address + 6, here.port}), "");
  Client same_port(server.port, 7, end.port);
  EXPECT_EQ(owner_of_client(same_port.end(), here), me);

  const int six = socket(AF_INET6, SOCK_STREAM, 0);
  if (six < 0) return;  // a system without IPv6
  sockaddr_in6 to{};
  to.sin6_family = AF_INET6;
  to.sin6_port = htons(here.port);
  ASSERT_EQ(inet_pton(AF_INET6, "::ffff:127.0.0.1", &to.sin6_addr), 1);
  ASSERT_EQ(connect(six, reinterpret_cast<const sockaddr*>(&to), sizeof to), 0);
  socklen_t size = sizeof to;
  ASSERT_EQ(getsockname(six, reinterpret_cast<sockaddr*>(&to), &size), 0);
  EXPECT_EQ(owner_of_client({INADDR_LOOPBACK, ntohs(to.sin6_port)}, here), me);
  close(six);
}

TEST(WebServer, AnswersWhoWaitsToSendABody) {
  Running server;
  const std::string head = "Host: x\r\nContent-Length: 5\r\nExpect: ";
  Client waits(server.port), odd(server.port), unknown(server.port);
  waits.send("POST /text?t=secret HTTP/1.1\r\n" + head + "100-Continue\r\n\r\n");
  EXPECT_EQ(waits.receive("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  waits.send("hello");
  EXPECT_THAT(waits.receive("bytes"), AllOf(StartsWith("HTTP/1.1 200"), EndsWith("5 bytes")));
  odd.send("POST /text?t=secret HTTP/1.1\r\n" + head + "200-ok\r\n\r\n");
  EXPECT_THAT(odd.receive(), StartsWith("HTTP/1.1 417"));
  unknown.send("POST /text HTTP/1.1\r\n" + head + "100-continue\r\n\r\n");
  EXPECT_THAT(unknown.receive(), StartsWith("HTTP/1.1 403"));
}

TEST(WebServer, KeepsAConnectionAndTakesRequestsThatArriveTogether) {
  Running server;
  Client client(server.port);
  const std::string one = "GET /text?t=secret&x=1 HTTP/1.1\r\nHost: x\r\n\r\n";
  client.send(one + one);
  EXPECT_THAT(client.receive("<1>"), EndsWith("<1>"));
  EXPECT_THAT(client.receive("<1>"), EndsWith("<1>"));
  client.send("POST /text?t=secret HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello");
  EXPECT_THAT(client.receive("bytes"), EndsWith("5 bytes"));
}

TEST(WebServer, SendsTheRangeOfAFile) {
  const auto path = testing::TempDir() + "web_test.bin";
  std::ofstream(path) << "0123456789";
  Running server;
  const auto part = [&](const std::string& range) {
    return server.get("/file?t=secret&path=" + path, "Range: " + range + "\r\n");
  };
  EXPECT_THAT(part("bytes=2-4"),
              AllOf(StartsWith("HTTP/1.1 206"), HasSubstr("Content-Range: bytes 2-4/10\r\n"),
                    EndsWith("\r\n\r\n234")));
  EXPECT_THAT(part("bytes=7-"), EndsWith("\r\n\r\n789"));
  EXPECT_THAT(part("bytes=-3"), EndsWith("\r\n\r\n789"));
  EXPECT_THAT(part("bytes=8-99"), EndsWith("\r\n\r\n89"));
  for (const char* none : {"bytes=10-", "bytes=99999999999999999999-", "bytes=-0"})
    EXPECT_THAT(part(none), AllOf(StartsWith("HTTP/1.1 416"), HasSubstr("bytes */10"))) << none;
  for (const char* other : {"bytes=0-1,3-4", "bits=0-1", "bytes=4-2", "bytes=--2", "bytes=-", "x"})
    EXPECT_THAT(part(other), AllOf(StartsWith("HTTP/1.1 200"), EndsWith("\r\n\r\n0123456789"))) << other;
  EXPECT_THAT(server.get("/file?t=secret&path=/dev/zero"), StartsWith("HTTP/1.1 404"));
  unlink(path.c_str());
}

TEST(WebServer, CutsEndlessHeadersAtASmallBound) {
  Running server;
  Client client(server.port);
  client.send("GET /text HTTP/1.1\r\n");
  size_t sent = 0;
  const std::string line = "X-" + std::string(1000, 'a') + ": b\r\n";
  while (sent < (64 << 20) && client.send(line)) sent += line.size();
  EXPECT_LT(sent,
            16 << 20);  // what the buffers of the sockets took meanwhile; the server itself keeps 36 KiB
  EXPECT_THAT(server.get("/text?t=secret"), StartsWith("HTTP/1.1 200"));
}

TEST(WebServer, RefusesABodyThatIsTooLongOrOfAnUnknownSender) {
  Running server(Limits{.body_bytes = 1000});
  Client longer(server.port), unknown(server.port);
  longer.send("POST /text?t=secret HTTP/1.1\r\nHost: x\r\nContent-Length: 1001\r\n\r\n" +
              std::string(1001, 'x'));
  EXPECT_THAT(longer.receive(), StartsWith("HTTP/1.1 413"));
  unknown.send(
      "POST /text HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n");  // refused before it is sent
  EXPECT_THAT(unknown.receive(), StartsWith("HTTP/1.1 403"));
}

TEST(WebServer, EndsARequestThatArrivesByDrops) {
  Running server(Limits{.request = milliseconds(300)});
  Client slow(server.port);
  slow.send("GET /text?t=secret HTTP/1.1\r\n");
  int drops = 0;
  while (slow.send("x") && !slow.is_closed_by_server() && ++drops < 1000)
    std::this_thread::sleep_for(milliseconds(10));
  EXPECT_LT(drops, 1000);
}

TEST(WebServer, IsNotStoppedByIdleConnections) {
  Running server(Limits{.connections = 300});
  std::vector<std::unique_ptr<Client>> idle;
  for (int i = 0; i < 310; ++i) idle.push_back(std::make_unique<Client>(server.port));
  for (int i = 0; i < 20; ++i) EXPECT_THAT(server.get("/text?t=secret"), StartsWith("HTTP/1.1 200"));
  EXPECT_TRUE(idle.front()->is_closed_by_server());  // those that waited longest made room
  EXPECT_FALSE(idle.back()->is_closed_by_server());
}

TEST(WebServer, IsNotStoppedByConnectionsThatOweABodyOrLinger) {
  Running server(Limits{.connections = 20});
  for (const std::string line :
       {"POST /text?t=secret", "POST /text", "GET /text?t=secret", "PUT /text?t=secret"}) {
    std::vector<std::unique_ptr<Client>> stuck;
    for (int i = 0; i < 30; ++i) {
      stuck.push_back(std::make_unique<Client>(server.port));
      stuck.back()->send(line + " HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n");
    }
    for (int i = 0; i < 5; ++i) EXPECT_THAT(server.get("/text?t=secret"), StartsWith("HTTP/1.1 200")) << line;
  }
}

TEST(WebServer, IdleConnectionsMakeRoomBeforeABodyThatArrives) {
  Running server(Limits{.connections = 10});
  Client sends(server.port);
  sends.send("POST /text?t=secret HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_THAT(sends.receive("\r\n\r\n"), StartsWith("HTTP/1.1 100"));
  std::vector<std::unique_ptr<Client>> idle;
  for (int i = 0; i < 30; ++i) idle.push_back(std::make_unique<Client>(server.port));
  EXPECT_THAT(server.get("/text?t=secret"), StartsWith("HTTP/1.1 200"));
  sends.send("hello");
  EXPECT_THAT(sends.receive("bytes"), EndsWith("5 bytes"));
}

TEST(WebServer, AnswersAtOnceWhereABodyHasNoPlace) {
  Running server;
  const std::string owes = "Content-Length: 10\r\n";
  EXPECT_THAT(server.get("/text?t=secret", owes), StartsWith("HTTP/1.1 400"));
  EXPECT_THAT(server.get("/text?t=secret", "Transfer-Encoding: chunked\r\n"), StartsWith("HTTP/1.1 400"));
  EXPECT_THAT(server.get("/text?t=secret", owes, "PUT"), StartsWith("HTTP/1.1 405"));
  EXPECT_THAT(server.get("/none?t=secret", owes, "POST"), StartsWith("HTTP/1.1 404"));
  EXPECT_THAT(server.get("/text?t=secret", "Content-Length: 0\r\n"), StartsWith("HTTP/1.1 200"));
}

TEST(WebServer, IsNotStoppedByReadersThatDoNotRead) {
  const auto path = testing::TempDir() + "web_test_large.bin";
  std::ofstream(path).close();
  ASSERT_EQ(truncate(path.c_str(), 256 << 20), 0);
  Running server(Limits{.threads = 2});
  std::vector<std::unique_ptr<Client>> stuck;
  for (int i = 0; i < 20; ++i) {
    stuck.push_back(std::make_unique<Client>(server.port));
    stuck.back()->send("GET /file?t=secret&path=" + path + " HTTP/1.1\r\nHost: x\r\n\r\n");
  }
  EXPECT_THAT(server.get("/text?t=secret"), StartsWith("HTTP/1.1 200"));
  unlink(path.c_str());
}

TEST(WebServer, SurvivesAnyBytes) {
  Running server(Limits{.request = milliseconds(500)});
  for (const std::string& text :
       {std::string("\0\xff\xfe", 3), std::string("GET\r\n\r\n"), std::string("GET / HTTP/9.9\r\n\r\n"),
        std::string("GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n"), std::string("\r\n\r\n\r\n"),
        std::string("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"),
        std::string(
            "POST /text?t=secret HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n")}) {
    Client client(server.port);
    client.send(text);
    EXPECT_THAT(client.receive("\r\n"), testing::AnyOf("", StartsWith("HTTP/1.1 4"))) << text;
  }
  EXPECT_THAT(server.get("/text?t=secret"), StartsWith("HTTP/1.1 200"));
}

}  // namespace
}  // namespace kinora::web
