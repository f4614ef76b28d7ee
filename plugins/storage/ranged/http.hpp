// One HTTP request by libcurl, bounded in memory, without retries; and the range that its answer has.
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <curl/curl.h>

namespace kinora::ranged {

constexpr long kLeastSpeed =
    1000;  // bytes/s: a server that is slower for all of `timeout` is considered dead

// Whether *stop is true, or the host interrupted this library's storages a moment ago.
bool is_stopped(const std::atomic<bool>* stop);
// [any-thread] What a storage does on kinora_storage.interrupt.
void interrupt();

struct HttpOptions {
  std::string ca_file;  // certificates to trust; empty: the system's
  double connect_timeout = 10,
         timeout = 60;  // s; the latter with fewer than 1,000 bytes/s from or to the server
  // Redirects are followed (redirects.hpp), and names and passwords are those of ~/.netrc.
  bool is_web = false;
};

struct HttpRequest {
  std::string method = "GET", url;
  std::vector<std::string>
      headers;            // "name: value"; never without a value, which this libcurl would sign incorrectly
  std::string_view body;  // body of PUT and POST; must live until the answer
  std::string range;      // "0-65535"
  char* to = nullptr;     // destination of the body of a successful answer, at most `room` bytes
  uint64_t room = 0;
  const std::atomic<bool>* stop = nullptr;  // ends the request when it becomes true
  // A run that was asked to stop ends a request that moves slowly; one that moves completes, as a step that
  // may still end needs its bytes. False for what has to be tidied up even then.
  bool ends_with_run = true;
  std::function<void(CURL*)> prepare = {};  // sets further options of libcurl
};

struct HttpAnswer {
  CURLcode code = CURLE_OK;
  std::string problem;  // message for `code`
  long status = 0;
  std::string url;                             // that answered, after redirects
  std::string redirect;                        // the address to which it redirects, else empty
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;                            // the part that did not go to `to`
  uint64_t got = 0;                            // bytes written to `to`
  bool is_ok() const { return code == CURLE_OK && status >= 200 && status < 300; }
  std::string header(const std::string& name) const {
    const auto it = headers.find(name);
    return it == headers.end() ? std::string() : it->second;
  }
};

// The part of an object that an answer contains: its first byte, and the size of the whole object.
struct Span {
  uint64_t begin = 0, total = 0;
};
// Reads Content-Range; without it the answer is a whole object. Nothing if the headers do not say it.
std::optional<Span> span_of(const HttpAnswer& answer);
// The value of HttpRequest::range.
std::string bytes_from(uint64_t begin, uint64_t size);
// The size of the object that a HEAD request was answered for.
std::optional<uint64_t> length_of(const HttpAnswer& answer);
// Parses a Date or Last-Modified header to seconds since 1970; 0 for anything else.
int64_t server_time(const std::string& text);

class Redirects;

// Keeps connections and reuses them. [any-thread]
class Http {
 public:
  explicit Http(HttpOptions options);
  Http(const Http&) = delete;
  Http& operator=(const Http&) = delete;
  ~Http();
  HttpAnswer perform(const HttpRequest& request);

 private:
  // One request, without redirects. redirects: of this request, whose rules are applied; may be null.
  HttpAnswer exchange(const HttpRequest& request, Redirects* redirects);
  CURL* take();
  void give(CURL* handle);
  HttpOptions options_;
  std::mutex mutex_;
  std::vector<CURL*> idle_;
};

}  // namespace kinora::ranged
