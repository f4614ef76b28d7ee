// The shards of a path, of any format, and their samples by number.
#pragma once
#include <atomic>
#include <chrono>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "plugins/jobs/loading/mds.hpp"
#include "plugins/jobs/loading/sample_shard.hpp"
#include "plugins/jobs/loading/set_files.hpp"
#include "plugins/jobs/loading/source_shards.hpp"

namespace kinora::core {

// A sample that is damaged.
struct UnreadSample {
  std::string which;  // "sample 17 of shards/shard-000003.tar"
  std::string why;    // with key and offset
};

// [any-thread] after construction.
class ShardSet {
 public:
  // path: a folder of WebDataset or MDS shards, a .tar file or a pattern, local or a URI. The numbers of samples come
  // from .info.json, index.json or the index of each shard; a shard without one is read once, and a warning names the
  // remedy. Throws Error for a set without samples. cache: of samples of other storages; null: none. open: how to open
  // a file.
  explicit ShardSet(std::string path, std::shared_ptr<SampleCache> cache = nullptr,
                    OpenBytes open = open_bytes);
  // The samples that a source gives for a path.
  ShardSet(std::string path, const DataSource& source);

  const std::string& path() const { return path_; }
  // The counts of what was read from its shards.
  const ReadCounts& counts() const { return files_.counts(); }
  const std::vector<std::string>& names() const { return names_; }
  // The number of samples of each shard.
  const std::vector<uint64_t>& samples() const { return samples_; }
  uint64_t size() const { return size_; }
  // Identifies the set: names of shards below the folder that they share, and their numbers of samples.
  std::string digest() const;

  // Throws Error if the shard cannot be opened. The shards that were used last stay open.
  std::shared_ptr<const SampleShard> shard(size_t number) const;
  // The samples behind damage that .info.json does not count, of the shards that were opened since the last call.
  std::vector<UnreadSample> take_unread() const;
  // f(shard), which reads a sample of it. A shard that cannot be read now, after the retries of its storage, costs its
  // own samples: Error(KINORA_ERROR_DATA), at once for others that are read within ten minutes. Throws
  // Error(KINORA_ERROR_IO) if that happens to five shards in a row, and other errors as they are.
  template <class F>
  auto reading(size_t number, uint64_t sample, const F& f) const {
    refuse_unreachable(number);
    std::shared_ptr<const SampleShard> opened;
    try {
      opened = shard(number);
      auto out = f(*opened);
      unreachable_in_a_row_ = 0;
      return out;
    } catch (const Error& e) {
      if (e.code() != KINORA_ERROR_IO) throw;
      throw unreachable(number,
                        e.what() + (opened ? fmt::format(" (the sample at byte {})", opened->offset(sample))
                                           : std::string()));
    }
  }
  // "sample 17 of shards/shard-000003.tar".
  std::string text_of(size_t number, uint64_t sample) const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Unreachable {
    Clock::time_point until;
    std::string why;
  };
  void refuse_unreachable(size_t number) const;
  Error unreachable(size_t number, const std::string& why) const;
  OpenBytes opener() const {
    return [this](std::string_view uri) { return files_.open(uri); };
  }
  std::shared_ptr<const SampleShard> keep(size_t number, std::shared_ptr<const SampleShard> opened) const;
  void note_unread(size_t number, const SampleShard& shard) const;
  void list_tars();
  void count_all();

  std::string path_;
  SetFiles files_;
  std::vector<std::string> names_;
  std::optional<SourceShards> source_;
  std::vector<MdsFile> mds_;  // the MDS file of each shard; empty for WebDataset and for a source
  std::vector<uint64_t> samples_;
  uint64_t size_ = 0;
  mutable std::mutex mutex_;
  mutable std::map<size_t, std::shared_ptr<const SampleShard>> open_;
  mutable std::vector<UnreadSample> unread_;
  mutable std::set<size_t> has_unread_;  // the shards that were ever in unread_
  mutable std::list<size_t> used_;       // the open shards, the one used last first
  mutable std::map<size_t, Unreachable> unreachable_;
  mutable std::atomic<int> unreachable_in_a_row_{0};
};

}  // namespace kinora::core
