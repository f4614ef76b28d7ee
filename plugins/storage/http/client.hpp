// Requests to web servers, each repeated until it succeeds or cannot succeed.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "plugins/storage/http/address.hpp"
#include "plugins/storage/ranged/http.hpp"
#include "plugins/storage/ranged/reader.hpp"
#include "plugins/storage/ranged/tries.hpp"

namespace kinora::web {

// The user's options, see plugin.toml.
struct Options {
  std::string ca_file;
  double connect_timeout = 10, timeout = 60;  // s
  int64_t retries = 8;
  int64_t parallel = 4;
  int64_t read_ahead = 32 << 20;
};

// [any-thread] All functions; they throw Error, which names the address, the cause and the remedy.
class Client {
 public:
  explicit Client(const Options& options);
  ~Client();  // logs how many requests were repeated, if any
  const Options& options() const { return options_; }

  struct About {
    uint64_t size = 0;
    int64_t modified = 0;  // by the server's clock, seconds since 1970; 0: unknown
  };
  // By a HEAD request. A folder, whose address the server changes to one with a slash at its end, is an Error.
  About about(const Address& at);

  // One request.
  ranged::HttpAnswer perform(const ranged::HttpRequest& request);
  // After a failure: waits and returns if another try makes sense, otherwise throws.
  void retry_or_throw(const Address& at, const ranged::HttpAnswer& answer, ranged::Tries& tries,
                      const std::atomic<bool>* stop = nullptr);

 private:
  Options options_;
  ranged::Http http_;
  std::atomic<int64_t> requests_{0}, repeated_{0};
  std::atomic<bool> told_{false};  // the warning that no server answers was logged; once is enough
};

// A file that is read by ranges. An answer of another version of it than the first one is an Error.
class WebFile final : public ranged::RangedObject {
 public:
  WebFile(std::shared_ptr<Client> client, Address at) : client_(std::move(client)), at_(std::move(at)) {}
  Start open(uint64_t most) override;
  void read(uint64_t offset, uint64_t size, char* to, const std::atomic<bool>* stop) override;

 private:
  ranged::HttpAnswer get(uint64_t offset, uint64_t size, char* to, const std::atomic<bool>* stop);
  void check_version(const ranged::HttpAnswer& answer) const;
  [[noreturn]] void refuse_whole_files() const;

  std::shared_ptr<Client> client_;
  Address at_;
  uint64_t size_ = 0;
  std::string etag_, modified_;  // as received from the server; may be empty
};

// A folder cannot be listed: what to do instead.
[[noreturn]] void refuse_folder(const std::string& uri);

}  // namespace kinora::web
