// One HTTP request by libcurl: signed by SigV4, bounded in memory, tried once.
#pragma once
#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include <curl/curl.h>

#include "credentials.hpp"
#include "options.hpp"

namespace kinora::s3 {

struct HttpRequest {
  std::string method = "GET", url;
  std::vector<std::string>
      headers;            // "name: value"; none without a value, which this libcurl would sign amiss
  std::string_view body;  // of PUT and POST; lives until the answer
  std::string range;      // "0-65535"
  char* to = nullptr;     // where the body of a success goes, at most `room` bytes of it
  uint64_t room = 0;
  const std::atomic<bool>* stop = nullptr;  // ends the request when it becomes true
};

struct HttpAnswer {
  CURLcode code = CURLE_OK;
  std::string problem;  // of `code`
  long status = 0;
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;                            // what did not go `to`
  uint64_t got = 0;                            // bytes that went `to`
  bool is_ok() const { return code == CURLE_OK && status >= 200 && status < 300; }
  std::string header(const std::string& name) const {
    const auto it = headers.find(name);
    return it == headers.end() ? std::string() : it->second;
  }
};

// Connections are kept and used again. [any-thread]
class Http {
 public:
  explicit Http(const Options& options);
  Http(const Http&) = delete;
  Http& operator=(const Http&) = delete;
  ~Http();
  // Not signed without credentials.
  HttpAnswer perform(const HttpRequest& request, const Credentials* credentials);

 private:
  CURL* take();
  void give(CURL* handle);
  Options options_;
  std::string signature_;  // CURLOPT_AWS_SIGV4's value
  std::mutex mutex_;
  std::vector<CURL*> idle_;
};

}  // namespace kinora::s3
