// The requests of S3's interface that a storage needs, each repeated until it succeeds or cannot succeed.
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "plugins/storage/ranged/http.hpp"
#include "plugins/storage/ranged/tries.hpp"
#include "plugins/storage/s3/answers.hpp"
#include "plugins/storage/s3/failure.hpp"
#include "plugins/storage/s3/object_path.hpp"

namespace kinora::s3 {

struct Opened {
  uint64_t size = 0;
  std::string etag;      // with its quotes, as received from the server; may be empty
  std::string first;     // the first bytes
  int64_t modified = 0;  // by the server's clock, seconds since 1970; 0: unknown
};

struct Upload {
  std::string id;     // empty: no upload has begun
  int64_t begun = 0;  // by the server's clock; 0: unknown
};

// [any-thread] All functions; they throw Error, which names the object, the cause and the remedy.
class Client {
 public:
  // Makes no request. Throws Error for options that contradict each other.
  explicit Client(const Options& options);
  ~Client();  // logs how many requests were repeated, if any
  const Options& options() const { return options_; }
  int64_t requests() const { return requests_; }
  int64_t repeated() const { return repeated_; }

  // Size and the first bytes, at most `first`, in one request.
  Opened open(const ObjectPath& at, uint64_t first);
  // Bytes [offset, offset + size), which must exist. After a broken connection the read continues where it
  // broke. etag: the object's at open(); a different one is an error.
  void read(const ObjectPath& at, uint64_t offset, uint64_t size, char* to, const std::string& etag,
            const std::atomic<bool>* stop = nullptr);
  Opened head(const ObjectPath& at);
  void put(const ObjectPath& at, std::string_view bytes);
  void remove(const ObjectPath& at);
  // One page; token: from the previous page.
  Listing list(const ObjectPath& folder, const std::string& token);
  // At most 1,000 objects of any depth whose keys begin with the folder's, after the key `after`.
  Listing list_from(const ObjectPath& folder, const std::string& after, uint64_t most);

  // Writes if the object's ETag is `etag`, or, if it is empty, if there is no object. Returns the new ETag; nothing:
  // the server refused by the condition, or by that of an earlier try whose answer was lost.
  std::optional<std::string> put_if(const ObjectPath& at, std::string_view bytes, const std::string& etag);
  bool remove_if(const ObjectPath& at, const std::string& etag);

  Upload begin_upload(const ObjectPath& at);
  // Returns the part's ETag as received from the server. number: from 1.
  std::string put_part(const ObjectPath& at, const Upload& upload, int64_t number, std::string_view bytes,
                       const std::atomic<bool>* stop);
  // size: of all parts. The complete object exists when this returns.
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
    // For a successful answer: whether it is valid. If not, the request is repeated.
    std::function<bool(const HttpAnswer&)> accept = {};
  };
  // One request with the current credentials, which are stored in `used` (none: anonymous).
  HttpAnswer once(const Call& call, std::shared_ptr<const Credentials>& used);
  // After a failure: waits and returns if another try makes sense, otherwise throws.
  void retry_or_throw(const Call& call, const HttpAnswer& answer, const Credentials* used,
                      ranged::Tries& tries);
  HttpAnswer send(const Call& call, ranged::Tries& tries);
  HttpAnswer send(const Call& call);
  // The same of a request with a condition. Nothing: the object does not meet it.
  std::optional<HttpAnswer> send_if(const Call& call);
  Listing page_of(const ObjectPath& folder, const Query& query);

  Options options_;
  std::shared_ptr<CredentialSource> credentials_;
  Endpoint endpoint_;
  std::unique_ptr<ranged::Http> http_;
  std::atomic<int64_t> requests_{0}, repeated_{0};
  std::atomic<bool> told_{
      false};  // the warning that no server answers was logged; once, since all requests would repeat it
};

}  // namespace kinora::s3
