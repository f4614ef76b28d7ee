// Files by URI through storage components (kinora.io/1 for plugins; the class for core).
//
//   "clips/a.mp4", "/data/a.mp4", "file:///data/a%20b.mp4"   storage/file, the path
//   "s3://bucket/key"                                        storage/s3, "bucket/key": the part after "://"
//   "https://host/folder/file"                               storage/https, "host/folder/file"
//   "asset:minilm/vocab.txt"                                 storage/file, found by paths.hpp
#pragma once
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "core/plugin/registry.hpp"
#include "kinora/abi/io.h"
#include "kinora/abi/storage.h"

namespace kinora::core {

struct Uri {
  std::string scheme;  // "file" if the text has none
  std::string path;    // the argument of the storage component
};
// An address of a web server with a name, a password or a query is refused, and not repeated in the message: what logs
// show must contain no secret.
Result<Uri> parse_uri(std::string_view text);
// Whether it is an address of a web server (http, https), which serves files and cannot list folders.
bool is_web(std::string_view text);

// One instance of a storage component.
struct Store {
  const kinora_storage* table = nullptr;
  void* self = nullptr;
  ~Store();
};

struct Listed {
  std::string name;  // relative to the listed folder
  bool folder = false;
  uint64_t size = 0;
  int64_t modified = 0;  // nanoseconds since 1970
};

// [any-thread] All functions. An instance of a storage component is made on the first use of its scheme.
class Io {
 public:
  explicit Io(Registry& registry) : registry_(registry) {}
  // Sets options for a scheme's storage; call before its first use.
  void configure(const std::string& scheme, json options);
  // These options by scheme, for another process that reads the same files.
  json configured();
  Result<std::shared_ptr<Store>> store(const std::string& scheme);
  // The direct contents of a folder, by name.
  Result<std::vector<Listed>> list(std::string_view uri);
  // All files below a folder at any depth, by name; for a file, itself under the name "". A web server lists
  // only a file.
  Result<std::vector<Listed>> list_all(std::string_view uri);
  // One line per file of list_all(), or that a pattern such as "s3://bucket/s-{000..012}.tar" names: name,
  // size, time; of a folder of a web server, that of its index of shards. Listing is slow, so the first
  // result is kept for the lifetime of this object.
  Result<std::string> contents(const std::string& uri);
  Status remove(std::string_view uri);
  // Reads whole small files; bounded, so that a hostile size cannot exhaust memory.
  Result<std::string> read_all(std::string_view uri, uint64_t at_most = uint64_t{1} << 30);
  Status write_all(std::string_view uri, std::string_view bytes);

 private:
  Result<std::vector<Listed>> list_one(std::string_view uri);
  Result<std::vector<Listed>> list_index(std::string_view uri);
  Result<std::vector<Listed>> list_named(const std::string& pattern);
  void interrupt_when_cancelled(const std::stop_token&);
  Registry& registry_;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Store>> stores_;
  std::map<std::string, json> options_;
  std::map<std::string, std::string> contents_;
  std::jthread interrupts_;  // once a storage has interrupt(); ends first
};

// Offers kinora.io/1 over `io` (null: every call fails). One at a time per process.
void serve_io(Io* io);
// The object that is offered; null: none.
Io* served_io();

}  // namespace kinora::core
