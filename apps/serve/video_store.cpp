#include "apps/serve/video_store.hpp"

#include <array>

#include "kinora/error.hpp"

namespace kinora::serve {
namespace {

using core::Database;
using core::Query;
using nlohmann::json;

constexpr std::array kNames{"queued", "in_progress", "completed", "failed"};

Status status_of(const std::string& name) {
  for (size_t i = 0; i < kNames.size(); ++i)
    if (name == kNames[i]) return static_cast<Status>(i);
  throw Error(KINORA_ERROR_DATA, "a video of the store has the unknown status '" + name + "'");
}

#define KINORA_COLUMNS "id, model, status, created, completed, expires, fields, error, remixed_from, starts"

}  // namespace

const char* name_of(Status s) { return kNames.at(static_cast<size_t>(s)); }

VideoStore::VideoStore(const std::filesystem::path& file) : database_(file, Database::Access::write) {
  database_.script(
      "CREATE TABLE IF NOT EXISTS videos (number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, "
      "model TEXT NOT NULL, status TEXT NOT NULL, created INTEGER NOT NULL, completed INTEGER NOT NULL "
      "DEFAULT 0, "
      "expires INTEGER NOT NULL DEFAULT 0, fields TEXT NOT NULL, error TEXT NOT NULL DEFAULT 'null', "
      "remixed_from TEXT NOT NULL DEFAULT '', starts INTEGER NOT NULL DEFAULT 0, key TEXT UNIQUE);"
      "CREATE INDEX IF NOT EXISTS waiting ON videos (status, model, number);"
      "UPDATE videos SET status = 'queued', starts = starts - 1 WHERE status = 'in_progress';"
      "DELETE FROM videos WHERE status = 'queued' AND json_extract(fields, '$.awaited');");
}

StoredVideo VideoStore::read(const Query& row) const {
  return {.id = row.text(0),
          .model = row.text(1),
          .status = status_of(row.text(2)),
          .created = row.number(3),
          .completed = row.number(4),
          .expires = row.number(5),
          .fields = json::parse(row.text(6)),
          .error = json::parse(row.text(7)),
          .remixed_from = row.text(8),
          .starts = row.number(9)};
}

std::string VideoStore::add(const StoredVideo& v, const std::string& key) {
  const std::scoped_lock lock(mutex_);
  Database::Transaction both(database_);
  if (!key.empty())
    if (auto known = database_.text("SELECT id FROM videos WHERE key = ?", key); !known.empty()) return known;
  database_.run(
      "INSERT INTO videos (id, model, status, created, fields, remixed_from) VALUES (?, ?, 'queued', ?, ?, "
      "?)",
      v.id, v.model, v.created, v.fields.dump(), v.remixed_from);
  if (!key.empty()) database_.run("UPDATE videos SET key = ? WHERE id = ?", key, v.id);
  both.commit();
  return v.id;
}

std::optional<StoredVideo> VideoStore::find(const std::string& id) const {
  const std::scoped_lock lock(mutex_);
  Query row(database_, "SELECT " KINORA_COLUMNS " FROM videos WHERE id = ?");
  row.bind(1, id);
  if (!row.next()) return std::nullopt;
  return read(row);
}

std::string VideoStore::id_of_key(const std::string& key) const {
  const std::scoped_lock lock(mutex_);
  return key.empty() ? "" : database_.text("SELECT id FROM videos WHERE key = ?", key);
}

std::optional<StoredVideo> VideoStore::oldest(const std::string& model, const std::string& alike) const {
  Query row(database_, "SELECT " KINORA_COLUMNS
                       " FROM videos WHERE status = 'queued' AND model = ?1 AND (?2 = '' OR (starts = 0 AND "
                       "json_extract(fields, '$.alike') = ?2)) ORDER BY number LIMIT 1");
  row.bind(1, model);
  row.bind(2, alike);
  if (!row.next()) return std::nullopt;
  return read(row);
}

std::optional<StoredVideo> VideoStore::next(const std::string& model, const std::string& alike) const {
  const std::scoped_lock lock(mutex_);
  return oldest(model, alike);
}

std::vector<std::string> VideoStore::models_of_queued() const {
  const std::scoped_lock lock(mutex_);
  return database_.texts("SELECT DISTINCT model FROM videos WHERE status = 'queued'");
}

std::optional<StoredVideo> VideoStore::begin_next(const std::string& model, const std::string& alike) {
  const std::scoped_lock lock(mutex_);
  Database::Transaction both(database_);
  auto out = oldest(model, alike);
  if (!out) return out;
  out->status = Status::in_progress;
  ++out->starts;
  database_.run("UPDATE videos SET status = 'in_progress', starts = starts + 1 WHERE id = ?", out->id);
  both.commit();
  return out;
}

void VideoStore::requeue(const std::string& id) {
  const std::scoped_lock lock(mutex_);
  database_.run("UPDATE videos SET status = 'queued' WHERE id = ? AND status = 'in_progress'", id);
}

void VideoStore::complete(const std::string& id, int64_t now, int64_t expires, const json& fields) {
  const std::scoped_lock lock(mutex_);
  database_.run("UPDATE videos SET status = 'completed', completed = ?, expires = ?, fields = ? WHERE id = ?",
                now, expires, fields.dump(), id);
}

void VideoStore::fail(const std::string& id, int64_t now, int64_t expires, const json& error) {
  const std::scoped_lock lock(mutex_);
  database_.run("UPDATE videos SET status = 'failed', completed = ?, expires = ?, error = ? WHERE id = ?",
                now, expires, error.dump(), id);
}

bool VideoStore::remove(const std::string& id) {
  const std::scoped_lock lock(mutex_);
  Database::Transaction both(database_);
  const bool existed = database_.number("SELECT count(*) FROM videos WHERE id = ?", id) > 0;
  database_.run("DELETE FROM videos WHERE id = ?", id);
  both.commit();
  return existed;
}

int64_t VideoStore::queued() const {
  const std::scoped_lock lock(mutex_);
  return database_.number("SELECT count(*) FROM videos WHERE status = 'queued'");
}

std::vector<StoredVideo> VideoStore::page(const std::string& after, int64_t limit, bool ascending,
                                          bool& more) const {
  const std::scoped_lock lock(mutex_);
  more = false;
  int64_t from = ascending ? 0 : INT64_MAX;
  if (!after.empty()) {
    from = database_.number("SELECT number FROM videos WHERE id = ?", after);
    if (from == 0) return {};
  }
  Query row(database_, ascending ? "SELECT " KINORA_COLUMNS
                                   " FROM videos WHERE number > ? ORDER BY number ASC LIMIT ?"
                                 : "SELECT " KINORA_COLUMNS
                                   " FROM videos WHERE number < ? ORDER BY number DESC LIMIT ?");
  row.bind(1, from);
  row.bind(2, limit + 1);
  std::vector<StoredVideo> out;
  while (row.next()) {
    more = static_cast<int64_t>(out.size()) == limit;
    if (more) break;
    out.push_back(read(row));
  }
  return out;
}

std::vector<std::string> VideoStore::expired(int64_t now) const {
  const std::scoped_lock lock(mutex_);
  return database_.texts("SELECT id FROM videos WHERE expires > 0 AND expires <= ?", now);
}

std::vector<std::string> VideoStore::ids() const {
  const std::scoped_lock lock(mutex_);
  return database_.texts("SELECT id FROM videos");
}

}  // namespace kinora::serve
