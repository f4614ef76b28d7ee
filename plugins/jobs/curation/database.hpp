// A SQLite database file. Its errors are kinora::Error, with the file and the remedy. On a disk without locks it
// is used without them, which the log says.
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <vector>

struct sqlite3;
struct sqlite3_stmt;

namespace kinora::core {

class Database;

// A statement with its arguments, and its rows one after another. The Database must outlive it.
class Query {
 public:
  Query(Database& database, const char* sql);
  ~Query();
  Query(const Query&) = delete;
  Query& operator=(const Query&) = delete;

  void bind(int at, int64_t value);
  void bind(int at, std::string_view value);
  void bind(int at, std::nullptr_t);  // NULL
  // Goes to the next row. False: there is none.
  bool next();
  // Columns of the row, from 0.
  std::string text(int column) const;
  int64_t number(int column) const;

 private:
  void require(int status) const;
  Database& database_;
  const char* sql_;
  sqlite3_stmt* statement_;
};

// [owner-thread]
class Database {
 public:
  enum class Access : uint8_t {
    write,  // creates the file if it is missing
    read,
    copy,  // a private copy of the file, or an empty database if it is missing; the file itself stays as it is
    scratch  // no file of this name, but a temporary one (in SQLITE_TMPDIR or TMPDIR, else /var/tmp), without rollback
  };
  Database(std::filesystem::path file, Access access);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  // Runs a statement to its end. `sql` must be a literal: its address identifies the prepared statement.
  template <class... Values>
  void run(const char* sql, const Values&... values) {
    Query query(*this, sql);
    bind_all(query, values...);
    while (query.next()) {
    }
  }
  // The first column of each row.
  template <class... Values>
  std::vector<int64_t> numbers(const char* sql, const Values&... values) {
    std::vector<int64_t> out;
    Query query(*this, sql);
    bind_all(query, values...);
    while (query.next()) out.push_back(query.number(0));
    return out;
  }
  template <class... Values>
  std::vector<std::string> texts(const char* sql, const Values&... values) {
    std::vector<std::string> out;
    Query query(*this, sql);
    bind_all(query, values...);
    while (query.next()) out.push_back(query.text(0));
    return out;
  }
  // The first column of the first row, or 0 or "" if there is none.
  template <class... Values>
  int64_t number(const char* sql, const Values&... values) {
    const auto all = numbers(sql, values...);
    return all.empty() ? 0 : all.front();
  }
  template <class... Values>
  std::string text(const char* sql, const Values&... values) {
    const auto all = texts(sql, values...);
    return all.empty() ? "" : all.front();
  }
  // Runs several statements without arguments.
  void script(const char* sql);
  // The row id that the last INSERT made.
  int64_t last_id() const;
  // Number of rows that the last INSERT, UPDATE or DELETE changed.
  int64_t changed() const;

  // Changes that are made together, or not at all if it ends without commit().
  class Transaction {
   public:
    explicit Transaction(Database& database) : database_(database) { database_.script("BEGIN IMMEDIATE"); }
    ~Transaction();
    Transaction(const Transaction&) = delete;
    Transaction& operator=(const Transaction&) = delete;
    void commit();

   private:
    Database& database_;
    bool is_open_ = true;
  };

 private:
  friend class Query;
  template <class... Values>
  static void bind_all(Query& query, const Values&... values) {
    int at = 0;
    (bind_one(query, ++at, values), ...);
  }
  template <class V>
  static void bind_one(Query& query, int at, const V& value) {
    if constexpr (std::is_integral_v<V>)
      query.bind(at, static_cast<int64_t>(value));
    else if constexpr (std::is_null_pointer_v<V>)
      query.bind(at, nullptr);
    else
      query.bind(at, std::string_view(value));
  }
  struct Close {
    void operator()(sqlite3* database) const;
  };
  using Handle = std::unique_ptr<sqlite3, Close>;

  Handle open_by(const std::string& name, int flags, const char* vfs) const;
  void open(int flags, const char* first);
  void copy_from(sqlite3* source);
  [[noreturn]] void fail(sqlite3* database, int status) const;

  const std::filesystem::path file_;
  Handle database_;
  std::unordered_map<const char*, sqlite3_stmt*> idle_;  // prepared statements that no Query uses now
};

}  // namespace kinora::core
