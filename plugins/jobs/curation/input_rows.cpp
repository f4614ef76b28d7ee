#include "plugins/jobs/curation/input_rows.hpp"

#include <fmt/format.h>

#include "core/base/facts.hpp"

namespace kinora::core {
namespace {

constexpr int64_t kAtOnce = 256;  // in memory
constexpr const char* kTables = R"sql(
CREATE TABLE input (
  at INTEGER PRIMARY KEY, url TEXT, file TEXT, wanted TEXT, words TEXT, size INTEGER, modified INTEGER, error TEXT,
  key TEXT, key_before TEXT, recorded INTEGER);
CREATE TABLE name (key TEXT PRIMARY KEY, at INTEGER, next INTEGER DEFAULT 2) WITHOUT ROWID;
CREATE INDEX by_recorded ON input(recorded) WHERE recorded <> 0;
)sql";

// The manifest's columns for the video besides its url and key.
std::string words_of(const Input& input) {
  json out = json::object();
  if (!input.user.empty()) out["user"] = input.user;
  if (input.caption) out["caption"] = *input.caption;
  return out.empty() ? "" : out.dump(-1, ' ', false, json::error_handler_t::replace);
}

Input input_of(const Query& row) {
  Input out{.key = row.text(0), .url = row.text(1), .wanted = row.text(2)};
  if (const std::string words = row.text(3); !words.empty()) {
    const json all = json::parse(words);
    if (all.contains("caption")) out.caption = all["caption"].get<std::string>();
    if (all.contains("user")) out.user = all["user"];
  }
  out.size = static_cast<uint64_t>(row.number(4));
  out.modified = row.number(5);
  out.error = row.text(6);
  out.key_before = row.text(7);
  out.recorded = row.number(8);
  return out;
}

}  // namespace

InputRows::InputRows() { db_.script(kTables); }

void InputRows::add(const Input& input) {
  const std::lock_guard lock(mutex_);
  const size_t slash = input.url.rfind('/');
  db_.run("INSERT INTO input VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", size_, input.url,
          slash == std::string::npos ? input.url : input.url.substr(slash + 1), input.wanted, words_of(input),
          input.size, input.modified, input.error, input.key, input.key_before, input.recorded);
  if (!input.key.empty()) db_.run("INSERT OR IGNORE INTO name (key, at) VALUES (?, ?)", input.key, size_);
  have_wanted_ |= !input.wanted.empty();
  have_before_ |= !input.key_before.empty();
  ++size_;
}

void InputRows::truncate(size_t size) {
  const std::lock_guard lock(mutex_);
  db_.run("DELETE FROM input WHERE at >= ?", size);
  size_ = size;
}

size_t InputRows::size() const {
  const std::lock_guard lock(mutex_);
  return size_;
}

uint64_t InputRows::bytes() const {
  const std::lock_guard lock(mutex_);
  return static_cast<uint64_t>(db_.number("SELECT SUM(size) FROM input"));
}

size_t InputRows::usable() const {
  const std::lock_guard lock(mutex_);
  return static_cast<size_t>(db_.number("SELECT COUNT(*) FROM input WHERE error = ''"));
}

std::vector<Input> InputRows::some_from(size_t at, int64_t most) const {
  const std::lock_guard lock(mutex_);
  std::vector<Input> out;
  Query rows(db_,
             "SELECT key, url, wanted, words, size, modified, error, key_before, recorded FROM input "
             "WHERE at >= ? ORDER BY at LIMIT ?");
  rows.bind(1, static_cast<int64_t>(at));
  rows.bind(2, most);
  while (rows.next()) out.push_back(input_of(rows));
  return out;
}

Input InputRows::operator[](size_t at) const { return some_from(at, 1).at(0); }

void InputRows::each(const std::function<void(size_t, const Input&)>& f) const {
  for (size_t at = 0;;) {
    const std::vector<Input> some = some_from(at, kAtOnce);
    if (some.empty()) return;
    for (const Input& input : some) f(at++, input);
  }
}

size_t InputRows::set_file(const FoundFile& file) {
  const std::lock_guard lock(mutex_);
  if (!std::exchange(is_by_url_, true)) db_.script("CREATE INDEX by_url ON input(url, recorded)");
  db_.run(
      "UPDATE input SET size = ?, modified = ? WHERE url = ? AND size = 0 AND modified = 0 AND error = ''",
      file.size, file.modified, file.url);
  return static_cast<size_t>(db_.changed());
}

void InputRows::set_time(size_t at, int64_t modified) {
  const std::lock_guard lock(mutex_);
  db_.run("UPDATE input SET modified = ? WHERE at = ?", modified, at);
}

bool InputRows::is_only(const std::string& file) const {
  const std::lock_guard lock(mutex_);
  if (!std::exchange(is_by_file_, true)) db_.script("CREATE INDEX by_file ON input(file)");
  return db_.numbers("SELECT at FROM input WHERE file = ? LIMIT 2", file).size() == 1;
}

// The place in the first row, if there is one.
std::optional<size_t> InputRows::place(Query& rows) const {
  if (!rows.next()) return std::nullopt;
  return static_cast<size_t>(rows.number(0));
}

std::optional<size_t> InputRows::find(const std::string& key) const {
  const std::lock_guard lock(mutex_);
  Query rows(db_, "SELECT at FROM name WHERE key = ? AND at IS NOT NULL");
  rows.bind(1, key);
  return place(rows);
}

void InputRows::reserve(const std::string& key) {
  const std::lock_guard lock(mutex_);
  db_.run("INSERT INTO name (key) VALUES (?) ON CONFLICT (key) DO UPDATE SET at = NULL", key);
}

bool InputRows::is_taken(const std::string& key) const {
  const std::lock_guard lock(mutex_);
  return db_.number("SELECT COUNT(*) FROM name WHERE key = ?", key) > 0;
}

void InputRows::clear_keys() {
  const std::lock_guard lock(mutex_);
  db_.run("UPDATE input SET key = '' WHERE key <> ''");
  db_.script("DELETE FROM name WHERE at IS NOT NULL; UPDATE name SET next = 2");
}

bool InputRows::take(size_t at, const std::string& key) {
  db_.run("INSERT OR IGNORE INTO name (key, at) VALUES (?, ?)", key, at);
  if (db_.changed() == 0) return false;
  db_.run("UPDATE input SET key = ? WHERE at = ?", key, at);
  return true;
}

// A million videos may have the same name: the row of the base has the next number to try.
void InputRows::take_like(size_t at, const std::string& base) {
  if (take(at, base)) return;
  int64_t next = db_.number("SELECT next FROM name WHERE key = ?", base);
  while (!take(at, fmt::format("{}-{}", base, next))) ++next;
  db_.run("UPDATE name SET next = ? WHERE key = ?", next, base);
}

bool InputRows::name(size_t at, const std::string& key) {
  const std::lock_guard lock(mutex_);
  return take(at, key);
}

void InputRows::name_like(size_t at, const std::string& base) {
  const std::lock_guard lock(mutex_);
  take_like(at, base);
}

void InputRows::rename_like(size_t at, const std::string& base) {
  const std::lock_guard lock(mutex_);
  db_.run("DELETE FROM name WHERE key = (SELECT key FROM input WHERE input.at = ?)", at);
  take_like(at, base);
}

void InputRows::forget_record() {
  const std::lock_guard lock(mutex_);
  db_.run("UPDATE input SET key_before = '', recorded = 0 WHERE recorded <> 0 OR key_before <> ''");
  db_.run("DELETE FROM name WHERE at IS NULL");
  have_before_ = false;
}

void InputRows::set_recorded(size_t at, int64_t id, const std::string& key) {
  const std::lock_guard lock(mutex_);
  db_.run("UPDATE input SET recorded = ?, key_before = ? WHERE at = ?", id, key, at);
  have_before_ |= !key.empty();
}

std::optional<size_t> InputRows::recorded(int64_t id) const {
  const std::lock_guard lock(mutex_);
  Query rows(db_, "SELECT at FROM input WHERE recorded = ? AND recorded <> 0");
  rows.bind(1, id);
  return place(rows);
}

std::optional<size_t> InputRows::unrecorded_at(const std::string& url) const {
  const std::lock_guard lock(mutex_);
  if (!std::exchange(is_by_url_, true)) db_.script("CREATE INDEX by_url ON input(url, recorded)");
  Query rows(db_, "SELECT at FROM input WHERE url = ? AND recorded = 0 ORDER BY at LIMIT 1");
  rows.bind(1, url);
  return place(rows);
}

std::optional<size_t> InputRows::unrecorded_called(const std::string& file, size_t from) const {
  const std::lock_guard lock(mutex_);
  if (!std::exchange(is_by_file_, true)) db_.script("CREATE INDEX by_file ON input(file)");
  Query rows(db_, "SELECT at FROM input WHERE file = ? AND recorded = 0 AND at >= ? ORDER BY at LIMIT 1");
  rows.bind(1, file);
  rows.bind(2, static_cast<int64_t>(from));
  return place(rows);
}

}  // namespace kinora::core
