#include "plugins/jobs/data/stored_index.hpp"

#include <filesystem>
#include <sqlite3.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "core/base/cancel.hpp"
#include "core/io/byte_source.hpp"
#include "core/io/file_locks.hpp"
#include "kinora/webdataset_files.hpp"

namespace kinora::data {
namespace {

namespace fs = std::filesystem;

// Writes the file to a local one, which the caller removes.
fs::path local_copy(const std::string& uri) {
  std::string path = (fs::temp_directory_path() / "kinora-index-XXXXXX").string();
  const int descriptor = ::mkstemp(path.data());
  if (descriptor < 0)
    throw Error(KINORA_ERROR_IO, path + ": cannot be created; set TMPDIR to a writable folder");
  const auto refuse = [&] {
    ::close(descriptor);
    ::unlink(path.c_str());
    throw Error(KINORA_ERROR_NO_MEMORY, path + ": cannot be written; free space, or set TMPDIR");
  };
  const RandomBytes bytes = RandomBytes::of_file(uri);
  std::string block(1 << 20, '\0');
  for (uint64_t at = 0; at < bytes.size;) {
    const uint64_t got = bytes.read(at, block.data(), block.size());
    if (got == 0 || ::write(descriptor, block.data(), got) != static_cast<ssize_t>(got)) refuse();
    at += got;
  }
  ::close(descriptor);
  return path;
}

uint64_t number(sqlite3_stmt* statement, int column) {
  return static_cast<uint64_t>(sqlite3_column_int64(statement, column));
}

std::string text(sqlite3_stmt* statement, int column) {
  const auto* bytes = sqlite3_column_text(statement, column);
  if (!bytes) return "";
  return {reinterpret_cast<const char*>(bytes), static_cast<size_t>(sqlite3_column_bytes(statement, column))};
}

}  // namespace

std::optional<std::map<std::string, Listed>> read_info(const DataFolder& folder) {
  const auto text = read_small(folder.meta_uri(".info.json"));
  if (!text) return std::nullopt;
  std::map<std::string, Listed> out;
  const std::string before = folder.uri + "/";
  for (const auto& file : kinora::detail::files_of_info(folder.uri, *text))
    out.emplace(file.uri.substr(before.size()), Listed{out.size(), file.samples.value_or(0)});
  return out;
}

void StoredIndex::Close::operator()(sqlite3* db) const { sqlite3_close(db); }
void StoredIndex::Close::operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }

StoredIndex::StoredIndex(const std::string& uri) : uri_(uri) {
  const bool is_remote = uri.find("://") != std::string::npos;
  const fs::path file = is_remote ? local_copy(uri) : fs::path(uri);
  if (const auto regular = core::check_regular_file(file.string()); !regular)  // opening a pipe would wait
    throw Error(KINORA_ERROR_DATA, regular.failure().message);
  sqlite3* db = nullptr;
  const auto open_by = [&](const char* vfs) {
    const int status = sqlite3_open_v2(file.c_str(), &db, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX, vfs);
    db_.reset(db);
    return status != SQLITE_OK ? status
                               : sqlite3_exec(db, "PRAGMA schema_version", nullptr, nullptr, nullptr);
  };
  int status = open_by(nullptr);
  if (const int kind = status & 0xff; (kind == SQLITE_BUSY || kind == SQLITE_IOERR) && !core::can_lock(file))
    status = open_by("unix-none");  // it is only read
  if (is_remote) ::unlink(file.c_str());
  check(status);
  check(sqlite3_db_config(db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr));  // the file is a stranger's
  sqlite3_progress_handler(
      db, 1'000'000, [](void*) { return core::cancelled() ? 1 : 0; }, nullptr);
  sqlite3_limit(db, SQLITE_LIMIT_LENGTH, 1 << 20);  // of one row
  samples_ = prepared(
      "SELECT sample_index, sample_key, byte_offset, byte_size FROM samples WHERE tar_file_id = ? "
      "ORDER BY sample_index");
  parts_ = prepared(
      "SELECT sample_index, part_name, content_byte_offset, content_byte_size FROM sample_parts "
      "WHERE tar_file_id = ? ORDER BY sample_index, content_byte_offset");
}

StoredIndex::Statement StoredIndex::prepared(const char* sql) const {
  sqlite3_stmt* out = nullptr;
  check(sqlite3_prepare_v2(db_.get(), sql, -1, &out, nullptr));
  return Statement(out);
}

void StoredIndex::check(int status) const {
  if (status == SQLITE_OK || status == SQLITE_DONE || status == SQLITE_ROW) return;
  if (status == SQLITE_INTERRUPT) throw Error(KINORA_ERROR_CANCELLED, "interrupted");
  throw Error(KINORA_ERROR_DATA, uri_ + ": cannot be read (" +
                                     (db_ ? sqlite3_errmsg(db_.get()) : sqlite3_errstr(status)) +
                                     "); write it again with kinora data index --again");
}

bool StoredIndex::step(const Statement& statement) const {
  const int status = sqlite3_step(statement.get());
  check(status);
  return status == SQLITE_ROW;
}

void StoredIndex::begin(uint64_t shard) {
  for (const Statement* s : {&samples_, &parts_}) {
    sqlite3_reset(s->get());
    check(sqlite3_bind_int64(s->get(), 1, static_cast<sqlite3_int64>(shard)));
  }
  has_sample_ = step(samples_);
  has_part_ = step(parts_);
}

std::optional<energon::StoredSample> StoredIndex::next() {
  constexpr size_t kMostParts = 100'000;  // as in energon::ShardScan
  if (!has_sample_) return std::nullopt;
  const uint64_t index = number(samples_.get(), 0);
  energon::StoredSample out{
      text(samples_.get(), 1), number(samples_.get(), 2), number(samples_.get(), 3), {}};
  for (; has_part_ && number(parts_.get(), 0) <= index; has_part_ = step(parts_))
    if (number(parts_.get(), 0) == index && out.parts.size() < kMostParts)
      out.parts.push_back({text(parts_.get(), 1), number(parts_.get(), 2), number(parts_.get(), 3)});
  has_sample_ = step(samples_);
  return out;
}

}  // namespace kinora::data
