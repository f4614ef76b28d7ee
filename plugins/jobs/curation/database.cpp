#include "plugins/jobs/curation/database.hpp"

#include <sqlite3.h>

#include <fmt/format.h>

#include "core/io/byte_source.hpp"
#include "core/io/fence.hpp"
#include "core/io/file_locks.hpp"
#include "kinora/abi/base.h"
#include "kinora/error.hpp"
#include "plugins/jobs/listing/scratch_folder.hpp"

namespace kinora::core {
namespace {

constexpr int kWaitMilliseconds = 60'000;  // for another process that reads or copies the file

// detail: SQLite's extended code, which says which call failed.
const char* remedy(int status, int detail) {
  switch (detail) {
    case SQLITE_IOERR_SHMOPEN:
    case SQLITE_IOERR_SHMLOCK:
    case SQLITE_IOERR_SHMMAP:  // the disk cannot hold the file that ends in -shm
      return "programs cannot share memory on this disk, as on some network file systems; "
             "put the output folder on a disk of this machine, and run again";
    default:
      break;
  }
  switch (status & 0xff) {
    case SQLITE_FULL:
      return "free some space and run again; finished work is kept";
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return "the file is damaged: put back a copy of it, or delete it to run the job from scratch";
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return "another process is using it; wait for it, or end it, and run again";
    default:
      return "check the disk and the folder's permissions, and run again";
  }
}

int32_t code_of(int status) {
  switch (status & 0xff) {
    case SQLITE_FULL:
    case SQLITE_NOMEM:
      return KINORA_ERROR_NO_MEMORY;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return KINORA_ERROR_DATA;
    default:
      return KINORA_ERROR_IO;
  }
}

}  // namespace

Database::Database(std::filesystem::path file, Access access)
    : file_(access == Access::scratch ? std::filesystem::path(scratch_name(file.string()))
                                      : std::move(file)) {
  std::error_code error;
  const bool exists = access != Access::scratch && std::filesystem::exists(file_, error);
  if (access != Access::scratch) or_throw(check_regular_file(file_.string()));  // opening a pipe would wait
  if (access == Access::write) {
    // A kill loses nothing, a power cut at most the last changes.
    open(SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE,
         "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL");
  } else if (access == Access::read) {
    open(SQLITE_OPEN_READONLY, "PRAGMA schema_version");
  } else {
    if (exists) open(SQLITE_OPEN_READONLY, "PRAGMA schema_version");
    const Handle source = std::move(database_);
    database_ = open_by("", SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, nullptr);
    if (source) copy_from(source.get());
  }
  if (access == Access::scratch) script("PRAGMA journal_mode = OFF; PRAGMA cache_size = -8192; BEGIN");
  sqlite3_busy_timeout(database_.get(), kWaitMilliseconds);
  script("PRAGMA trusted_schema = OFF; PRAGMA foreign_keys = ON");
}

Database::~Database() {
  for (const auto& [sql, statement] : idle_) sqlite3_finalize(statement);
  // The log of this copy of the run must not overwrite pages that another copy has written since.
  if (!may_publish(file_)) sqlite3_db_config(database_.get(), SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
}

void Database::Close::operator()(sqlite3* database) const { sqlite3_close(database); }

Database::Handle Database::open_by(const std::string& name, int flags, const char* vfs) const {
  sqlite3* opened = nullptr;
  const int status = sqlite3_open_v2(name.c_str(), &opened, flags | SQLITE_OPEN_NOMUTEX, vfs);
  Handle out(opened);  // also after an error
  if (status != SQLITE_OK) fail(opened, status);
  return out;
}

// first: what is run first, which needs a lock.
void Database::open(int flags, const char* first) {
  database_ = open_by(file_.string(), flags, nullptr);
  int status = sqlite3_exec(database_.get(), first, nullptr, nullptr, nullptr);
  const int kind = status & 0xff;
  if ((kind == SQLITE_BUSY || kind == SQLITE_IOERR) && !can_lock(file_)) {
    say_without_locks(file_.parent_path());
    database_.reset();
    database_ = open_by(file_.string(), flags, "unix-none");
    script("PRAGMA locking_mode = EXCLUSIVE");  // keeps the index of the WAL in memory, not in a shared file
    status = sqlite3_exec(database_.get(), first, nullptr, nullptr, nullptr);
  } else if (kind == SQLITE_BUSY) {
    sqlite3_busy_timeout(database_.get(), kWaitMilliseconds);
    status = sqlite3_exec(database_.get(), first, nullptr, nullptr, nullptr);
  }
  if (status != SQLITE_OK) fail(database_.get(), status);
}

void Database::copy_from(sqlite3* source) {
  sqlite3_backup* backup = sqlite3_backup_init(database_.get(), "main", source, "main");
  if (backup) sqlite3_backup_step(backup, -1);
  const int status = backup ? sqlite3_backup_finish(backup) : sqlite3_errcode(database_.get());
  if (status != SQLITE_OK) fail(database_.get(), status);
}

void Database::fail(sqlite3* database, int status) const {
  const std::string why = database ? sqlite3_errmsg(database) : sqlite3_errstr(status);
  const int detail = database ? sqlite3_extended_errcode(database) : status;
  throw Error(code_of(status), fmt::format("{}: {}; {}", file_.string(), why, remedy(status, detail)));
}

void Database::script(const char* sql) {
  if (const int status = sqlite3_exec(database_.get(), sql, nullptr, nullptr, nullptr); status != SQLITE_OK)
    fail(database_.get(), status);
}

int64_t Database::last_id() const { return sqlite3_last_insert_rowid(database_.get()); }

int64_t Database::changed() const { return sqlite3_changes(database_.get()); }

Database::Transaction::~Transaction() {
  if (is_open_) sqlite3_exec(database_.database_.get(), "ROLLBACK", nullptr, nullptr, nullptr);
}

void Database::Transaction::commit() {
  or_throw(may_publish(database_.file_));
  database_.script("COMMIT");
  is_open_ = false;
}

Query::Query(Database& database, const char* sql) : database_(database), sql_(sql) {
  if (const auto idle = database_.idle_.find(sql); idle != database_.idle_.end()) {
    statement_ = idle->second;
    database_.idle_.erase(idle);
  } else {
    require(sqlite3_prepare_v3(database_.database_.get(), sql, -1, SQLITE_PREPARE_PERSISTENT, &statement_,
                               nullptr));
  }
}

Query::~Query() {
  sqlite3_reset(statement_);
  if (!database_.idle_.try_emplace(sql_, statement_).second) sqlite3_finalize(statement_);
}

void Query::require(int status) const {
  if (status != SQLITE_OK) database_.fail(database_.database_.get(), status);
}

void Query::bind(int at, int64_t value) { require(sqlite3_bind_int64(statement_, at, value)); }

void Query::bind(int at, std::string_view value) {
  require(sqlite3_bind_text64(statement_, at, value.data() ? value.data() : "", value.size(),
                              SQLITE_TRANSIENT, SQLITE_UTF8));
}

void Query::bind(int at, std::nullptr_t) { require(sqlite3_bind_null(statement_, at)); }

bool Query::next() {
  const int status = sqlite3_step(statement_);
  if (status != SQLITE_ROW && status != SQLITE_DONE) require(status);
  return status == SQLITE_ROW;
}

std::string Query::text(int column) const {
  const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(statement_, column));
  return text ? std::string(text, static_cast<size_t>(sqlite3_column_bytes(statement_, column))) : "";
}

int64_t Query::number(int column) const { return sqlite3_column_int64(statement_, column); }

}  // namespace kinora::core
