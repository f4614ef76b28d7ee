// The whole server over HTTP, with the model of fake_model_test.cpp.
#pragma once
#include <atomic>
#include <future>

#include <gmock/gmock.h>

#include "apps/serve/serve.hpp"
#include "apps/serve/videos_testing.hpp"
#include "apps/web/client_testing.hpp"

namespace kinora::serve {

class ServeTest : public VideosTest {
 protected:
  static inline const std::string kToken = "Authorization: Bearer the token of this test\r\n";
  static inline const std::string kReadToken = "a-token-that-only-reads";
  static inline const std::string kReads = "Authorization: Bearer " + kReadToken + "\r\n";
  static inline const std::string kJson = "Content-Type: application/json\r\n";
  static inline const std::string kForm = "Content-Type: multipart/form-data; boundary=b\r\n";

  ServeTest() {
    setenv("KINORA_SERVE_TOKEN", "the token of this test", 1);
    setenv("KINORA_SERVE_READ_TOKEN", kReadToken.c_str(), 1);
    settings_.token = "the token of this test";
    settings_.read_token = kReadToken;
    settings_.port = 0;
    settings_.upload = 3 << 20;
    std::promise<std::string> url;
    auto known = url.get_future();
    thread_ = std::thread([this, url = std::move(url)]() mutable {
      try {
        serve::serve({.settings = settings_,
                      .program = std::filesystem::read_symlink("/proc/self/exe"),
                      .ready = [&](const std::string& at) { url.set_value(at); },
                      .stopped = [this] { return ends_.load(); }});
      } catch (...) {
        url.set_exception(std::current_exception());
      }
    });
    const std::string at = known.get();
    EXPECT_THAT(at, testing::StartsWith("http://127.0.0.1:"));
    port_ = std::stoi(at.substr(at.rfind(':') + 1));
  }
  ~ServeTest() override {
    ends_ = true;
    thread_.join();
  }

  static std::string request(const std::string& line, const std::string& more, const std::string& body = "") {
    return line + " HTTP/1.1\r\nHost: here\r\nConnection: close\r\n" + more +
           (body.empty() ? "" : "Content-Length: " + std::to_string(body.size()) + "\r\n") + "\r\n" + body;
  }
  std::string ask(const std::string& line, const std::string& more = kToken,
                  const std::string& body = "") const {
    web::Client client(port_);
    client.send(request(line, more, body));
    return client.receive();
  }
  static json body_of(const std::string& answer) {
    const size_t at = answer.find("\r\n\r\n");
    return json::parse(at == std::string::npos ? "" : answer.substr(at + 4), nullptr, false);
  }
  json make(const std::string& type, const std::string& body) const {
    const std::string answer = ask("POST /v1/videos", kToken + type, body);
    EXPECT_THAT(answer, testing::StartsWith("HTTP/1.1 200"));
    return body_of(answer);
  }
  std::string status(const std::string& id) const {
    return body_of(ask("GET /v1/videos/" + id)).value("status", "");
  }

  int port_ = 0;
  std::atomic<bool> ends_{false};  // true: it is to end

 private:
  std::thread thread_;
};

}  // namespace kinora::serve
