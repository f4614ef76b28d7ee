// One HTTP request by libcurl: signed by SigV4, bounded in memory, without retries; and the checksums that it
// carries.
#pragma once
#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include <curl/curl.h>

#include "plugins/storage/s3/credentials.hpp"
#include "plugins/storage/s3/object_path.hpp"

namespace kinora::s3 {

struct HttpRequest {
  std::string method = "GET", url;
  std::vector<std::string>
      headers;            // "name: value"; never without a value, which this libcurl would sign incorrectly
  std::string_view body;  // body of PUT and POST; must live until the answer
  std::string range;      // "0-65535"
  char* to = nullptr;     // destination of the body of a successful answer, at most `room` bytes
  uint64_t room = 0;
  const std::atomic<bool>* stop = nullptr;  // ends the request when it becomes true
};

struct HttpAnswer {
  CURLcode code = CURLE_OK;
  std::string problem;  // message for `code`
  long status = 0;
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;                            // the part that did not go to `to`
  uint64_t got = 0;                            // bytes written to `to`
  bool is_ok() const { return code == CURLE_OK && status >= 200 && status < 300; }
  std::string header(const std::string& name) const {
    const auto it = headers.find(name);
    return it == headers.end() ? std::string() : it->second;
  }
};

// Keeps connections and reuses them. [any-thread]
class Http {
 public:
  explicit Http(const Options& options);
  Http(const Http&) = delete;
  Http& operator=(const Http&) = delete;
  ~Http();
  // Without credentials the request is not signed.
  HttpAnswer perform(const HttpRequest& request, const Credentials* credentials);

 private:
  CURL* take();
  void give(CURL* handle);
  Options options_;
  std::string signature_;  // value of CURLOPT_AWS_SIGV4
  std::mutex mutex_;
  std::vector<CURL*> idle_;
};

// Checksums by which a server verifies an upload.
std::string md5_bytes(std::string_view bytes);  // 16 bytes, not hexadecimal
std::string hexadecimal(std::string_view bytes);
std::string sha256_hex(std::string_view bytes);
std::string base64(std::string_view bytes);

}  // namespace kinora::s3
