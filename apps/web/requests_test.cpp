// Routes with places, uploads and growing bodies, as raw sockets see them.
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <mutex>
#include <numeric>
#include <utility>

#include <gmock/gmock.h>

#include "apps/web/client_testing.hpp"
#include "apps/web/full_disk_testing.hpp"

namespace kinora::web {
namespace requests_test {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr uint64_t kMostUpload = 200'000;

std::string summary(const std::string& bytes) {
  const auto sum = std::accumulate(bytes.begin(), bytes.end(), uint64_t{0}, [](uint64_t all, char c) {
    return all * 31 + static_cast<unsigned char>(c);
  });
  return std::to_string(bytes.size()) + " bytes " + std::to_string(sum);
}

std::string pattern(size_t size) {
  std::string out(size, '\0');
  for (size_t i = 0; i < size; ++i) out[i] = static_cast<char>(i * 7 + i / 251);
  return out;
}

std::string chunked(const std::string& bytes, size_t piece) {
  std::string out;
  char length[20];
  for (size_t at = 0; at < bytes.size(); at += piece) {
    const std::string one = bytes.substr(at, piece);
    std::snprintf(length, sizeof length, "%zx\r\n", one.size());
    out += length + one + "\r\n";
  }
  return out + "0\r\n\r\n";
}

class Running {
 public:
  Running() : folder_(made()), server_(limits(folder_)) {
    server_.set_refuse([](int status, const std::string& why) {
      return Answer{.status = status, .type = "application/json", .body = "{" + why + "}"};
    });
    const auto id = [](const Request& r) { return r.places.at("id"); };
    server_.get("/v/fixed", [](const Request&) { return Answer{.body = "fixed"}; });
    server_.get("/v/{id}", [id](const Request& r) { return Answer{.body = "<" + id(r) + ">"}; });
    server_.get("/v/{id}/content",
                [id](const Request& r) { return Answer{.body = "content of <" + id(r) + ">"}; });
    server_.remove("/v/{id}", [id](const Request& r) { return Answer{.body = "removed <" + id(r) + ">"}; });
    server_.get("/throws", [](const Request&) -> Answer { throw std::runtime_error("it broke"); });
    server_.upload("/up", [this](const Request& r) {
      ++uploads;
      std::ifstream in(r.upload->path(), std::ios::binary);
      const std::string bytes(std::istreambuf_iterator<char>(in), {});
      const bool is_kept = in.is_open() && r.body.empty() && r.upload->path().parent_path() == folder_;
      return Answer{.body = is_kept ? summary(bytes) : "not in the folder"};
    });
    server_.post("/waits", [this](const Request& r) {
      for (int tries = 0; tries < 600 && !grown && !r.is_gone(); ++tries)
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      if (r.is_gone()) ++gone;
      return Answer{.body = "waited"};
    });
    server_.get("/grows", [this](const Request&) {
      const auto alive = std::make_shared<int>();
      {
        const std::scoped_lock lock(mutex_);
        viewers_.push_back(alive);
      }
      return Answer{.next = [this, alive, n = 0]() mutable -> std::optional<std::string> {
        if (!grown) return std::nullopt;
        return n++ < 2 ? "part" : "";
      }};
    });
    server_.get("/blocks", [this](const Request&) {
      return Answer{.next = [this, n = 0]() mutable -> std::optional<std::string> {
        for (int tries = 0; tries < 600 && !grown; ++tries)
          std::this_thread::sleep_for(std::chrono::milliseconds(5));
        return n++ < 1 ? "part" : "";
      }};
    });
    server_.get("/endless", [this](const Request&) {
      return Answer{.next = [this]() -> std::optional<std::string> {
        given += 64 << 10;
        return std::string(64 << 10, 'x');
      }};
    });
    port = server_.bind(0);
    thread_ = std::thread([this] { server_.run([this] { return ends_.load(); }); });
  }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;
  ~Running() {
    ends_ = true;
    thread_.join();
    fs::remove_all(folder_);
  }
  std::string ask(const std::string& line, const std::string& more = "", const std::string& body = "") const {
    Client client(port);
    client.send(line + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" + more + "\r\n" + body);
    return client.receive();
  }
  std::string upload(const std::string& bytes) const {
    return ask("POST /up", "Content-Length: " + std::to_string(bytes.size()) + "\r\n", bytes);
  }
  bool has_no_files() const {
    return eventually([this] { return fs::is_empty(folder_); });
  }
  size_t viewers() {
    const std::scoped_lock lock(mutex_);
    return static_cast<size_t>(
        std::count_if(viewers_.begin(), viewers_.end(), [](const auto& v) { return !v.expired(); }));
  }
  int port = 0;
  std::atomic<int> uploads{0}, gone{0}, given{0};
  std::atomic<bool> grown{false};

 private:
  static fs::path made() {
    std::string name = (fs::temp_directory_path() / "kinora-uploads-XXXXXX").string();
    return mkdtemp(name.data());
  }
  static Limits limits(const fs::path& folder) {
    return {.header_bytes = 32 << 10,
            .body_bytes = 1000,
            .upload_bytes = kMostUpload,
            .upload_folder = folder,
            .threads = 2};
  }
  const fs::path folder_;
  Server server_;
  std::mutex mutex_;
  std::vector<std::weak_ptr<int>> viewers_;
  std::atomic<bool> ends_{false};
  std::thread thread_;
};

TEST(WebRequests, PlacesAreOneDecodedSegmentAndTheFirstRouteThatFitsAnswers) {
  Running server;
  const std::string longest(20'000, 'a');
  const std::vector<std::pair<std::string, std::string>> fit{{"/v/fixed", "fixed"},
                                                             {"/v/video_1", "<video_1>"},
                                                             {"/v/a%2Fb%20c?x=/y", "<a/b c>"},
                                                             {"/v/{id}", "<{id}>"},
                                                             {"/v/..", "<..>"},
                                                             {"/v/%2e%2e%2fetc", "<../etc>"},
                                                             {"/v/x/content", "content of <x>"},
                                                             {"/v/fixed/content", "content of <fixed>"},
                                                             {"/v/" + longest, "<" + longest + ">"}};
  for (const auto& [target, body] : fit)
    EXPECT_THAT(server.ask("GET " + target), AllOf(StartsWith("HTTP/1.1 200"), EndsWith("\r\n\r\n" + body)))
        << target;
  for (const char* target : {"/v", "/v/", "/v//content", "/v/x/", "/v/x/y", "/v/x/content/", "/v/x/content/y",
                             "//v/x", "v/x", "/v/a%2", "/v/%zz", "*"})
    EXPECT_THAT(server.ask(std::string("GET ") + target),
                AllOf(StartsWith("HTTP/1.1 404"), EndsWith("{there is nothing here}")))
        << target;
}

TEST(WebRequests, MethodsAreThoseOfTheRoute) {
  Running server;
  EXPECT_THAT(server.ask("DELETE /v/x%20y"), EndsWith("\r\n\r\nremoved <x y>"));
  for (const char* line :
       {"DELETE /v/x/content", "PUT /v/x", "DELETE /up", "GET /up", "HEAD /up", "DELETE /v/fixed/content"})
    EXPECT_THAT(server.ask(line), StartsWith("HTTP/1.1 405")) << line;
  EXPECT_THAT(server.ask("DELETE /none"), StartsWith("HTTP/1.1 404"));
  EXPECT_THAT(server.ask("HEAD /v/abc"),
              AllOf(StartsWith("HTTP/1.1 200"), HasSubstr("Content-Length: 5\r\n"), EndsWith("\r\n\r\n")));
  EXPECT_THAT(server.ask("HEAD /grows"), AllOf(StartsWith("HTTP/1.1 200"), EndsWith("\r\n\r\n")));
}

TEST(WebRequests, EveryRefusalHasTheFormThatWasSet) {
  Running server;
  const auto refusal = [](const char* status, const std::string& why) {
    return AllOf(StartsWith(std::string("HTTP/1.1 ") + status),
                 HasSubstr("Content-Type: application/json\r\n"), EndsWith("\r\n\r\n{" + why + "}"));
  };
  EXPECT_THAT(server.ask("GET /none"), refusal("404", "there is nothing here"));
  EXPECT_THAT(server.ask("PUT /v/x"), refusal("405", "this address has no such method"));
  EXPECT_THAT(server.ask("GET /v/x?a=%"), refusal("400", "the address has a damaged escape"));
  EXPECT_THAT(server.ask("GET /v/x", "Host: y\r\n"), refusal("400", "a header is given twice: host"));
  EXPECT_THAT(server.ask("GET /throws"), refusal("500", "it broke"));
  EXPECT_THAT(server.ask("POST /up", "Content-Length: 5\r\nExpect: tea\r\n"),
              refusal("417", "only 100-continue may be expected"));
  EXPECT_THAT(server.ask("POST /up", "Content-Length: 200001\r\n"),
              refusal("413", "the request is too long"));
  EXPECT_THAT(server.ask("GET /v/" + std::string(34'000, 'a')), refusal("431", "the headers are too long"));
  EXPECT_THAT(server.ask("no"), refusal("400", "this is not an HTTP request"));
}

TEST(WebRequests, AnUploadIsAFileWhileItsHandlerRuns) {
  Running server;
  for (const size_t size : {size_t{0}, size_t{1}, size_t{70'000}, static_cast<size_t>(kMostUpload)}) {
    const std::string bytes = pattern(size);
    EXPECT_THAT(server.upload(bytes), EndsWith("\r\n\r\n" + summary(bytes)));
    EXPECT_THAT(server.ask("POST /up", "Transfer-Encoding: chunked\r\n", chunked(bytes, 4099)),
                EndsWith("\r\n\r\n" + summary(bytes)));
  }
  EXPECT_THAT(server.ask("POST /up"), EndsWith("\r\n\r\n" + summary("")));
  EXPECT_TRUE(server.has_no_files());
}

TEST(WebRequests, UploadsFollowEachOtherOnAConnection) {
  Running server;
  Client client(server.port);
  std::string all;
  for (const char* body : {"", "first", "", "second"})
    all += "POST /up HTTP/1.1\r\nHost: x\r\nContent-Length: " + std::to_string(std::string(body).size()) +
           "\r\n\r\n" + body;
  client.send(all + "GET /v/end HTTP/1.1\r\nHost: x\r\n\r\n");
  for (const char* body : {"", "first", "", "second"}) {
    const std::string wanted = "\r\n\r\n" + summary(body);
    EXPECT_THAT(client.receive(wanted), EndsWith(wanted));
  }
  EXPECT_THAT(client.receive("<end>"), EndsWith("\r\n\r\n<end>"));
  EXPECT_TRUE(server.has_no_files());
}

TEST(WebRequests, AnUploadWaitsForItsContinuation) {
  Running server;
  const std::string bytes = pattern(50'000);
  Client client(server.port);
  client.send(
      "POST /up HTTP/1.1\r\nHost: x\r\nConnection: close\r\nExpect: 100-continue\r\nContent-Length: " +
      std::to_string(bytes.size()) + "\r\n\r\n");
  EXPECT_EQ(client.receive("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  client.send(bytes);
  EXPECT_THAT(client.receive(), AllOf(StartsWith("HTTP/1.1 200"), EndsWith("\r\n\r\n" + summary(bytes))));
}

TEST(WebRequests, AnUploadOverTheLimitOrCutOffLeavesNothing) {
  Running server;
  const std::string longer = pattern(kMostUpload + 1);
  EXPECT_THAT(server.upload(longer), StartsWith("HTTP/1.1 413"));
  EXPECT_THAT(server.ask("POST /up", "Transfer-Encoding: chunked\r\n", chunked(longer, 5000)),
              StartsWith("HTTP/1.1 413"));
  const std::string bytes = pattern(1000),
                    length = "POST /up HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n" + bytes,
                    pieces = "POST /up HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" +
                             chunked(bytes, 300);
  for (const std::string& whole : {length, pieces})
    for (size_t cut = 0; cut < whole.size(); cut += 37) Client(server.port).send(whole.substr(0, cut));
  EXPECT_TRUE(server.has_no_files());
  EXPECT_EQ(server.uploads.load(), 0);
  EXPECT_THAT(server.upload(bytes), EndsWith("\r\n\r\n" + summary(bytes)));
}

TEST(WebRequests, ViewersOfAGrowingBodyHoldNoThread) {
  Running server;
  std::vector<std::unique_ptr<Client>> viewers;
  for (int i = 0; i < 50; ++i) {
    viewers.push_back(std::make_unique<Client>(server.port));
    viewers.back()->send("GET /grows HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    EXPECT_THAT(viewers.back()->receive("\r\n\r\n"), HasSubstr("Transfer-Encoding: chunked"));
  }
  EXPECT_THAT(server.ask("GET /v/x"), EndsWith("<x>"));  // of two threads
  EXPECT_EQ(server.viewers(), 50U);
  viewers.resize(20);
  EXPECT_TRUE(eventually([&] { return server.viewers() == 20; }));  // who leaves is let go
  server.grown = true;
  for (const auto& viewer : viewers) EXPECT_EQ(viewer->receive(), "4\r\npart\r\n4\r\npart\r\n0\r\n\r\n");
}

TEST(WebRequests, HandlersThatWaitHoldUpNoOneWhoLooks) {
  Running server;
  std::vector<std::unique_ptr<Client>> waiting;
  for (int i = 0; i < 6; ++i) {  // of two threads
    waiting.push_back(std::make_unique<Client>(server.port));
    waiting.back()->send("POST /waits HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  }
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_THAT(server.ask("GET /v/x"), EndsWith("<x>"));
  EXPECT_THAT(server.ask("DELETE /v/x"), EndsWith("removed <x>"));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(2));
  server.grown = true;
  for (const auto& one : waiting) EXPECT_THAT(one->receive(), EndsWith("waited"));
  EXPECT_EQ(server.gone.load(), 0);
}

TEST(WebRequests, BytesThatWaitForTheirDiskHoldUpNoOneWhoLooks) {
  Running server;
  std::vector<std::unique_ptr<Client>> waiting;
  for (int i = 0; i < 6; ++i) {  // of two threads
    waiting.push_back(std::make_unique<Client>(server.port));
    waiting.back()->send("GET /blocks HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    EXPECT_THAT(waiting.back()->receive("\r\n\r\n"), StartsWith("HTTP/1.1 200"));
  }
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_THAT(server.ask("GET /v/x"), EndsWith("<x>"));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(2));
  server.grown = true;
  for (const auto& one : waiting) EXPECT_EQ(one->receive(), "4\r\npart\r\n0\r\n\r\n");
}

TEST(WebRequests, HoldsLittleForAClientThatReadsNothing) {
  Running server;
  Client reads_nothing(server.port);
  reads_nothing.send("GET /endless HTTP/1.1\r\nHost: x\r\n\r\n");
  int before = -1, now = 0;
  for (int tries = 0; tries < 20 && (now != before || now == 0); ++tries) {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    before = std::exchange(now, server.given.load());
  }
  EXPECT_GT(now, 0);
  EXPECT_EQ(now, before) << "more and more is taken";
  EXPECT_LE(now, 2 << 20);  // without the bound it is 4 MiB
}

TEST(WebRequests, AHandlerSeesThatItsClientIsGone) {
  Running server;
  Client stays(server.port);
  stays.send("POST /waits HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  Client(server.port).send("POST /waits HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_TRUE(eventually([&] { return server.gone.load() == 1; }));
  server.grown = true;
  EXPECT_THAT(stays.receive(), EndsWith("waited"));
  EXPECT_EQ(server.gone.load(), 1);
}

TEST(WebRequests, AnUploadToAFullDiskHasAnAnswer) {
  Running server;
  const std::string bytes = pattern(100'000);
  {
    const FullDisk full;
    EXPECT_THAT(server.upload(bytes), StartsWith("HTTP/1.1 507"));
    EXPECT_THAT(server.ask("POST /up", "Transfer-Encoding: chunked\r\n", chunked(bytes, 5000)),
                StartsWith("HTTP/1.1 507"));
    EXPECT_THAT(server.ask("GET /v/x"), EndsWith("<x>"));
  }
  EXPECT_TRUE(server.has_no_files());
  EXPECT_EQ(server.uploads.load(), 0);
  EXPECT_THAT(server.upload(bytes), EndsWith("\r\n\r\n" + summary(bytes)));
}

}  // namespace requests_test
}  // namespace kinora::web
