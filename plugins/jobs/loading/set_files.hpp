// The files of a set of shards: what is read of them is counted, and samples and indices of other storages are kept in
// a cache if there is one.
#pragma once
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "plugins/jobs/curation/webdataset.hpp"
#include "plugins/jobs/loading/sample_cache.hpp"

namespace kinora::core {

struct ReadCounts {
  std::atomic<uint64_t> bytes{0};                       // read from the files
  std::atomic<uint64_t> cache_hits{0}, cache_bytes{0};  // reads that the cache answered, and their bytes
};

// [any-thread]
class SetFiles {
 public:
  // cache: null for none; a set of local files uses none. open: how to open a file.
  SetFiles(const std::string& path, std::shared_ptr<SampleCache> cache, OpenBytes open = open_bytes);

  // With a cache, a file whose size and time its storage says is opened when something is read that the cache lacks.
  Result<std::shared_ptr<const ByteSource>> open(std::string_view uri) const;
  const ReadCounts& counts() const { return *counts_; }

 private:
  struct Stamp {
    uint64_t size;
    int64_t modified;
  };
  using Folder = std::map<std::string, Stamp>;  // by name
  // Size and time of a file; nothing if its storage does not say them.
  std::optional<Stamp> listed(const std::string& uri) const;
  static std::optional<Stamp> of_web(const std::string& uri);
  static Folder list(const std::string& folder);

  std::shared_ptr<SampleCache> cache_;
  OpenBytes open_;
  std::shared_ptr<ReadCounts> counts_ = std::make_shared<ReadCounts>();
  mutable std::mutex mutex_;
  mutable std::map<std::string, Folder> folders_;  // those listed so far, each once
};

}  // namespace kinora::core
