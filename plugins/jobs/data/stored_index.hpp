// Reads .nv-meta/index.sqlite, which Kinora or another program wrote.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "kinora/energon.hpp"
#include "plugins/jobs/data/shards.hpp"

struct sqlite3;
struct sqlite3_stmt;

namespace kinora::data {

// The shards that .info.json names: their number in index.sqlite, and how many samples each has. Nothing if
// there is no such file. Throws Error(KINORA_ERROR_DATA) for one that is not as Energon writes it.
struct Listed {
  uint64_t number = 0, samples = 0;
};
std::optional<std::map<std::string, Listed>> read_info(const DataFolder& folder);

// [owner-thread] Functions throw Error, KINORA_ERROR_DATA for a file that is not an index.
class StoredIndex {
 public:
  // A file of another storage is copied to an unnamed temporary file first.
  explicit StoredIndex(const std::string& uri);

  // Goes to the first sample of this shard.
  void begin(uint64_t shard);
  // The next sample of the shard in its order; nothing after the last.
  std::optional<energon::StoredSample> next();

 private:
  struct Close {
    void operator()(sqlite3*) const;
    void operator()(sqlite3_stmt*) const;
  };
  using Statement = std::unique_ptr<sqlite3_stmt, Close>;
  Statement prepared(const char* sql) const;
  void check(int status) const;
  bool step(const Statement& statement) const;
  std::string uri_;
  std::unique_ptr<sqlite3, Close> db_;
  Statement samples_, parts_;
  bool has_sample_ = false, has_part_ = false;  // the statement is at a row
};

}  // namespace kinora::data
