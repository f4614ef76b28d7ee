// Energon's .nv-meta/index.sqlite: the positions of the samples of all shards, and of their fields. Needs sqlite3.
#pragma once
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <functional>
#include <optional>
#include <sqlite3.h>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

#include "kinora/energon.hpp"

KINORA_SDK_BEGIN

namespace kinora::energon {

namespace detail {

// The schema that Megatron-Energon 7 reads (megatron/energon/flavors/webdataset/indexing.py there).
constexpr const char* kTables =
    "CREATE TABLE samples (tar_file_id INTEGER NOT NULL, sample_key TEXT NOT NULL UNIQUE, sample_index "
    "INTEGER NOT NULL,"
    " byte_offset INTEGER, byte_size INTEGER);"
    "CREATE TABLE sample_parts (tar_file_id INTEGER, sample_index INTEGER, part_name TEXT, "
    "content_byte_offset INTEGER,"
    " content_byte_size INTEGER);";
constexpr const char* kIndexes =
    "CREATE INDEX idx_samples_by_tar_and_idx ON samples(tar_file_id, sample_index);"
    "CREATE INDEX idx_sample_parts_seq ON sample_parts(tar_file_id, sample_index, content_byte_offset);"
    "CREATE INDEX idx_sample_parts_full ON sample_parts(tar_file_id, sample_index, part_name, "
    "content_byte_offset,"
    " content_byte_size);";

// Binds one row of values and steps the statement.
class Row {
 public:
  explicit Row(sqlite3_stmt* statement) : statement_(statement) {}
  ~Row() { sqlite3_reset(statement_); }
  Row(const Row&) = delete;
  Row& operator=(const Row&) = delete;
  Row& operator<<(uint64_t v) {
    sqlite3_bind_int64(statement_, ++n_, static_cast<sqlite3_int64>(v));
    return *this;
  }
  // The text must outlive step().
  Row& operator<<(std::string_view v) {
    sqlite3_bind_text(statement_, ++n_, v.data(), static_cast<int>(v.size()), SQLITE_STATIC);
    return *this;
  }
  int step() { return sqlite3_step(statement_); }

 private:
  sqlite3_stmt* statement_;
  int n_ = 0;
};

}  // namespace detail

// Builds it, and finds keys that are already stored.
// A database in an unnamed temporary file, because SQLite needs a local file and the shards may be anywhere.
// The same shards give the same bytes. [owner-thread]
class ShardIndex {
 public:
  struct Place {
    int64_t shard = 0;
    uint64_t offset = 0;  // of the sample in its shard
  };
  // Receives a sample whose key is stored already, and where.
  using OnDuplicate = std::function<void(const StoredSample&, const Place& first)>;

  ShardIndex() : folder_(std::filesystem::temp_directory_path().string()) {
    std::string path = folder_ + "/kinora-index-XXXXXX";
    descriptor_ = ::mkostemp(path.data(), O_CLOEXEC);
    if (descriptor_ < 0)
      throw Error(KINORA_ERROR_IO,
                  folder_ + ": cannot create the index here; set TMPDIR to a writable folder");
    // Without locks, which not every disk has: no other process can open it.
    const int status =
        sqlite3_open_v2(path.c_str(), &db_, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, "unix-none");
    ::unlink(path.c_str());  // a killed process leaves no file behind
    check(status);
    // An interrupted run builds it again. 32 MB: keys in no order would make a smaller cache read the file often.
    execute("PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; PRAGMA cache_size=-32000; PRAGMA threads=2;");
    execute(detail::kTables);
    execute("BEGIN;");
    const auto prepare = [&](const char* sql, sqlite3_stmt** to) {
      check(sqlite3_prepare_v2(db_, sql, -1, to, nullptr));
    };
    prepare("INSERT INTO samples VALUES (?, ?, ?, ?, ?)", &add_sample_);
    prepare("INSERT INTO sample_parts VALUES (?, ?, ?, ?, ?)", &add_part_);
    prepare("SELECT tar_file_id, byte_offset FROM samples WHERE sample_key = ?", &find_);
  }
  ShardIndex(const ShardIndex&) = delete;
  ShardIndex& operator=(const ShardIndex&) = delete;
  ~ShardIndex() {
    for (sqlite3_stmt* s : {add_sample_, add_part_, find_}) sqlite3_finalize(s);
    sqlite3_close(db_);
    ::close(descriptor_);
  }

  // Adds samples of a shard, the first of which is its sample number `first`. If a key is already stored, the
  // sample goes to `duplicate` and only its fields are added; without `duplicate`, Error(KINORA_ERROR_DATA).
  void add(int64_t shard, const std::vector<StoredSample>& samples, uint64_t first = 0,
           const OnDuplicate& duplicate = {}) {
    const auto id = static_cast<uint64_t>(shard);
    for (uint64_t i = 0; i < samples.size(); ++i) {
      const StoredSample& s = samples[i];
      const int status = (detail::Row(add_sample_) << id << s.key << first + i << s.offset << s.size).step();
      if (status == SQLITE_CONSTRAINT && duplicate)
        duplicate(s, find(s.key).value_or(Place{}));
      else if (status == SQLITE_CONSTRAINT)
        throw Error(KINORA_ERROR_DATA, "two samples are called '" + s.key + "'; keys must be unique");
      else
        check(status);
      for (const auto& part : s.parts)
        check((detail::Row(add_part_) << id << first + i << part.name << part.offset << part.size).step());
    }
  }

  // Returns where the sample is stored.
  std::optional<Place> find(std::string_view key) const {
    detail::Row row(find_);
    const int status = (row << key).step();
    if (status == SQLITE_ROW)
      return Place{sqlite3_column_int64(find_, 0), static_cast<uint64_t>(sqlite3_column_int64(find_, 1))};
    check(status);
    return std::nullopt;
  }

  // Builds the look-up indexes and copies the database to `uri`. Nothing can be added afterwards.
  void publish(const std::string& uri) {
    execute(detail::kIndexes);
    execute("COMMIT;");
    for (sqlite3_stmt** s : {&add_sample_, &add_part_, &find_}) sqlite3_finalize(std::exchange(*s, nullptr));
    check(sqlite3_close(db_));
    db_ = nullptr;
    Writer out(uri);
    std::vector<char> block(1 << 20);
    ssize_t got = 0;
    for (off_t at = 0; (got = ::pread(descriptor_, block.data(), block.size(), at)) > 0; at += got)
      out.write(block.data(), static_cast<uint64_t>(got));
    if (got < 0) throw Error(KINORA_ERROR_IO, folder_ + ": cannot read the index back; check the device");
    out.commit();
  }

 private:
  void check(int status) const {
    if (status == SQLITE_OK || status == SQLITE_DONE || status == SQLITE_ROW) return;
    const std::string text = db_ ? sqlite3_errmsg(db_) : sqlite3_errstr(status);
    throw Error(status == SQLITE_FULL ? KINORA_ERROR_NO_MEMORY : KINORA_ERROR_IO,
                folder_ + ": cannot write the index (" + text +
                    "); free space there, or set TMPDIR to another folder");
  }
  void execute(const char* sql) { check(sqlite3_exec(db_, sql, nullptr, nullptr, nullptr)); }

  std::string folder_;  // of the temporary file
  int descriptor_ = -1;
  sqlite3* db_ = nullptr;
  sqlite3_stmt *add_sample_ = nullptr, *add_part_ = nullptr, *find_ = nullptr;
};

}  // namespace kinora::energon

KINORA_SDK_END
