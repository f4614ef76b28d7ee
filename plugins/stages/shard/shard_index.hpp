// Positions of samples: Energon's index.sqlite, also used to find keys that are already stored.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "tar_writer.hpp"

struct sqlite3;
struct sqlite3_stmt;

namespace kinora::shard {

struct StoredSample {
  std::string key;
  uint64_t offset = 0, size = 0;  // in the archive, including headers
  struct Part {
    std::string name;
    uint64_t offset, size;  // of the content, without headers
  };
  std::vector<Part> parts;
};

// Groups members, in the order of the archive, into samples: neighbours with the same key. `end` as in TarContents.
std::vector<StoredSample> group(const std::vector<Member>& members, uint64_t end);

// A database in an unnamed temporary file, because SQLite needs a local file and the shards may be anywhere. The
// same shards give the same bytes.
class ShardIndex {
 public:
  ShardIndex();
  ShardIndex(const ShardIndex&) = delete;
  ShardIndex& operator=(const ShardIndex&) = delete;
  ~ShardIndex();
  // Throws Error (KINORA_DATA) if a key is already stored.
  void add(int64_t shard, const std::vector<StoredSample>& samples);
  // Returns the number of the shard that holds the sample.
  std::optional<int64_t> find(std::string_view key) const;
  // Builds the look-up indexes and copies the database to `uri`. Nothing can be added afterwards.
  void publish(const std::string& uri);

 private:
  void execute(const char* sql);
  void check(int status) const;
  std::string folder_;  // of the temporary file
  int descriptor_ = -1;
  struct sqlite3* db_ = nullptr;
  struct sqlite3_stmt *add_sample_ = nullptr, *add_part_ = nullptr, *find_ = nullptr;
};

}  // namespace kinora::shard
