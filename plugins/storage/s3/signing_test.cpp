// Signatures by libcurl against the examples that AWS publishes: docs.aws.amazon.com/AmazonS3/latest/API,
// "Signature Calculations for the Authorization Header: Transferring Payload in a Single Chunk".
#include "plugins/storage/s3/signing.hpp"

#include <chrono>
#include <thread>
#include <unistd.h>

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include "plugins/storage/s3/object_path.hpp"
#include "tests/support/full_port.hpp"

namespace kinora::s3 {
namespace {

using ranged::Http;
using ranged::HttpOptions;
using ranged::HttpRequest;

// Accepts one request, stores its head, answers 200.
class OneRequest {
 public:
  OneRequest() : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof at;
    ::bind(socket_, reinterpret_cast<sockaddr*>(&at), size);
    ::listen(socket_, 1);
    ::getsockname(socket_, reinterpret_cast<sockaddr*>(&at), &size);
    port_ = ntohs(at.sin_port);
    thread_ = std::thread([this] { answer(); });
  }
  ~OneRequest() { ::close(socket_); }
  std::string url(const std::string& rest) const {
    return "http://127.0.0.1:" + std::to_string(port_) + rest;
  }
  std::string head() {
    thread_.join();
    return text_;
  }

 private:
  void answer() {
    const int peer = ::accept(socket_, nullptr, nullptr);
    char some[4096];
    while (text_.find("\r\n\r\n") == text_.npos) {
      const ssize_t n = ::read(peer, some, sizeof some);
      if (n <= 0) break;
      text_.append(some, static_cast<size_t>(n));
    }
    const std::string said = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    EXPECT_EQ(::write(peer, said.data(), said.size()), static_cast<ssize_t>(said.size()));
    ::close(peer);
  }
  int socket_, port_ = 0;
  std::string text_;
  std::thread thread_;
};

struct Example {
  const char *method, *target, *body;
  std::vector<std::string> headers;
  const char *signed_headers, *signature;
};

TEST(Signature, IsThatOfAwssExamples) {
  const std::string nothing = "x-amz-content-sha256: " + sha256_hex("");
  const std::string welcome = "Welcome to Amazon S3.";
  const std::string put = "/" + encoded_key("test$file.text");
  const std::string list = "/?" + query_text({{"prefix", "J"}, {"max-keys", "2"}});
  const std::string lifecycle = "/?" + query_text({{"lifecycle", ""}});
  const Example examples[] = {
      {"GET",
       "/test.txt",
       "",
       {"Range: bytes=0-9", nothing},
       "host;range;x-amz-content-sha256;x-amz-date",
       "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"},
      {"PUT",
       put.c_str(),
       welcome.c_str(),
       {"Date: Fri, 24 May 2013 00:00:00 GMT", "x-amz-storage-class: REDUCED_REDUNDANCY",
        "x-amz-content-sha256: " + sha256_hex(welcome)},
       "date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class",
       "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd"},
      {"GET",
       lifecycle.c_str(),
       "",
       {nothing},
       "host;x-amz-content-sha256;x-amz-date",
       "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"},
      {"GET",
       list.c_str(),
       "",
       {nothing},
       "host;x-amz-content-sha256;x-amz-date",
       "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"}};
  Http http(HttpOptions{});
  const Credentials keys{"AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "", "", 0};
  for (const Example& e : examples) {
    OneRequest server;
    HttpRequest r;
    r.method = e.method;
    r.url = server.url(e.target);
    r.body = e.body;
    r.headers = e.headers;
    r.headers.push_back("Host: examplebucket.s3.amazonaws.com");
    r.headers.push_back("X-Amz-Date: 20130524T000000Z");
    EXPECT_TRUE(http.perform(signed_request(r, keys, "us-east-1")).is_ok());
    const std::string head = server.head();
    EXPECT_THAT(head, testing::HasSubstr(std::string(e.method) + " " + e.target + " HTTP/1.1"));
    EXPECT_THAT(head, testing::HasSubstr(std::string("SignedHeaders=") + e.signed_headers)) << e.target;
    EXPECT_THAT(head, testing::HasSubstr(std::string("Signature=") + e.signature)) << head;
  }
}

TEST(Signature, NoneWithoutCredentials) {
  OneRequest server;
  HttpRequest r;
  r.url = server.url("/a//b/../c");
  Http http(HttpOptions{});
  EXPECT_TRUE(http.perform(r).is_ok());
  const std::string head = server.head();
  EXPECT_THAT(head, testing::HasSubstr("GET /a//b/../c HTTP/1.1"));
  EXPECT_THAT(head, testing::Not(testing::HasSubstr("Authorization")));
}

TEST(Http, AConnectionThatIsNotMadeEndsAtItsLimit) {
  const test::FullPort server;
  HttpOptions o;
  o.connect_timeout = 0.3;
  HttpRequest r;
  r.url = server.url();
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(Http(o).perform(r).code, CURLE_OPERATION_TIMEDOUT);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
}

}  // namespace
}  // namespace kinora::s3
