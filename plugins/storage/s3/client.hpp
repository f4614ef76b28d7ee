// The requests of S3's interface that a storage needs, each repeated until it succeeds or there is no hope.
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "answers.hpp"
#include "endpoint.hpp"
#include "http.hpp"
#include "object_path.hpp"
#include "tries.hpp"

namespace kinora::s3 {

struct Opened {
  uint64_t size = 0;
  std::string etag;      // with its quotes, as the server gave it; may be empty
  std::string first;     // the first bytes
  int64_t modified = 0;  // by the server's clock, seconds since 1970; 0: it does not say
};

struct Upload {
  std::string id;     // empty: none has begun
  int64_t begun = 0;  // by the server's clock; 0: it does not say
};

// Of a Date or Last-Modified header, in seconds since 1970; 0 for anything else.
int64_t server_time(const std::string& text);

// [any-thread] All functions; they throw Error, which names the object, the cause and the remedy.
class Client {
 public:
  // No request is made. Throws Error for options that contradict each other.
  explicit Client(const Options& options);
  ~Client();  // says how many requests were repeated, if any were
  const Options& options() const { return options_; }
  int64_t requests() const { return requests_; }
  int64_t repeated() const { return repeated_; }

  // Size and the first bytes, `first` at most, in one request.
  Opened open(const ObjectPath& at, uint64_t first);
  // Bytes [offset, offset + size), which the object has. A connection that is cut goes on where it broke.
  // etag: what the object was at open(); another one now is an error.
  void read(const ObjectPath& at, uint64_t offset, uint64_t size, char* to, const std::string& etag,
            const std::atomic<bool>* stop = nullptr);
  Opened head(const ObjectPath& at);
  void put(const ObjectPath& at, std::string_view bytes);
  void remove(const ObjectPath& at);
  // One page; token: of the page before.
  Listing list(const ObjectPath& folder, const std::string& token);

  Upload begin_upload(const ObjectPath& at);
  // The part's ETag as the server gave it. number: from 1.
  std::string put_part(const ObjectPath& at, const Upload& upload, int64_t number, std::string_view bytes,
                       const std::atomic<bool>* stop);
  // size: of all parts. The object is there, whole, when this returns.
  void complete_upload(const ObjectPath& at, const Upload& upload, const std::vector<std::string>& etags,
                       uint64_t size);
  void abort_upload(const ObjectPath& at, const Upload& upload);

 private:
  struct Call {
    std::string method;
    const ObjectPath& at;
    const char* doing;  // "cannot be read"
    Query query = {};
    std::vector<std::string> headers = {};
    std::string_view body = {};
    std::string range = {};
    char* to = nullptr;
    uint64_t room = 0;
    const std::atomic<bool>* stop = nullptr;
    // Of a success: whether the answer is what was asked for. Else the request is repeated.
    std::function<bool(const HttpAnswer&)> accept = {};
  };
  // One request with the credentials of now; these are left in `used` (none: anonymous).
  HttpAnswer once(const Call& call, std::shared_ptr<const Credentials>& used);
  // After a failure: waits and returns if another try makes sense, throws if not.
  void retry_or_throw(const Call& call, const HttpAnswer& answer, const Credentials* used, Tries& tries);
  HttpAnswer send(const Call& call, Tries& tries);
  HttpAnswer send(const Call& call);

  Options options_;
  std::shared_ptr<CredentialSource> credentials_;
  Endpoint endpoint_;
  std::unique_ptr<Http> http_;
  std::atomic<int64_t> requests_{0}, repeated_{0};
  std::atomic<bool> told_{
      false};  // that no server is found; once, for every request of the time says the same
};

}  // namespace kinora::s3
