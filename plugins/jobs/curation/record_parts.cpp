// Takes over parts of a job that other processes have done.
#include "core/base/log.hpp"
#include "kinora/error.hpp"
#include "plugins/jobs/curation/clip_files.hpp"
#include "plugins/jobs/curation/record.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;

void link_or_copy(const fs::path& from, const fs::path& to) {
  fs::create_directories(to.parent_path());
  std::error_code error;
  fs::remove(to, error);  // left by a process that was killed before it had recorded the file
  fs::create_hard_link(from, to, error);
  if (error) fs::copy_file(from, to, error);  // a disk without hard links
  if (error)
    throw Error(KINORA_ERROR_IO, to.string() + ": cannot be made of " + from.string() + ": " +
                                     error.message() + "; free some space, and run again");
}

constexpr const char* kFilesOfInput =
    "SELECT name, size FROM file WHERE outcome IN (SELECT id FROM outcome WHERE input = ?) ORDER BY name";

}  // namespace

int64_t Record::adopt(const fs::path& part, const std::vector<std::string>& keys) {
  if (!fs::exists(part / kRecordFile))
    throw Error(KINORA_ERROR_NOT_FOUND, (part / kRecordFile).string() + ": there is no such file");
  const std::lock_guard lock(mutex_);
  Database theirs(part / kRecordFile, Database::Access::read);
  if (theirs.text("SELECT base FROM job") != options_.base)
    throw Error(KINORA_ERROR_INVALID, part.string() + ": it is a part of a job with other options");
  Database::Transaction all(db_);
  int64_t taken = 0;
  for (const auto& key : keys) {
    const int64_t id = theirs.number("SELECT id FROM input WHERE key = ?", key);
    if (!can_adopt(theirs, part / "data", id, key)) continue;
    copy_outcomes(theirs, part / "data", id, db_.number("SELECT id FROM input WHERE key = ?", key));
    ++taken;
  }
  all.commit();
  ended_before_ += taken;
  clips_before_ += db_.number("SELECT COUNT(*) FROM outcome WHERE id > ? AND made > 0", last_before_);
  last_before_ = db_.number("SELECT MAX(id) FROM outcome");
  return taken;
}

bool Record::can_adopt(Database& part, const fs::path& data, int64_t theirs, const std::string& key) {
  const int64_t ours = db_.number("SELECT id FROM input WHERE key = ?", key);
  if (ours == 0 || db_.number("SELECT COUNT(*) FROM outcome WHERE input = ?", ours) > 0) return false;
  if (part.number("SELECT COUNT(*) FROM outcome WHERE input = ? AND made = 0", theirs) == 0) return false;
  if (part.number("SELECT COUNT(*) FROM joined WHERE input = ?", theirs) > 0) return false;
  if (part.text("SELECT identity FROM input WHERE id = ?", theirs) !=
      db_.text("SELECT identity FROM input WHERE id = ?", ours))
    return false;
  // If two samples have one key, the first in the order of the inputs is stored and the second fails (OutcomeWriter).
  for (const auto& made :
       part.texts("SELECT DISTINCT key FROM outcome WHERE input = ? AND made > 0", theirs)) {
    if (db_.number("SELECT COUNT(*) FROM input WHERE key = ?", made) > 0) return false;
    if (db_.number("SELECT COUNT(*) FROM outcome WHERE key = ?", made) > 0) return false;
  }
  Query files(part, kFilesOfInput);
  files.bind(1, theirs);
  while (files.next()) {
    if (!is_stored(data, files.text(0), files.number(1))) return false;
    if (db_.number("SELECT COUNT(*) FROM file WHERE name = ?", files.text(0)) > 0) return false;
  }
  return true;
}

// The files first, then the rows that name them: what is recorded is there.
void Record::copy_outcomes(Database& part, const fs::path& data, int64_t theirs, int64_t ours) {
  Query files(part, kFilesOfInput);
  files.bind(1, theirs);
  while (files.next()) link_or_copy(data / files.text(0), data_ / files.text(0));
  Query outcomes(
      part, "SELECT id, key, made, failed, parent, parents, line FROM outcome WHERE input = ? ORDER BY id");
  outcomes.bind(1, theirs);
  while (outcomes.next()) {
    db_.run(
        "INSERT INTO outcome (input, key, made, failed, parent, parents, line) VALUES (?, ?, ?, ?, ?, ?, ?)",
        ours, outcomes.text(1), outcomes.number(2), outcomes.number(3), outcomes.text(4), outcomes.number(5),
        outcomes.text(6));
    const int64_t id = db_.last_id();
    Query stored(part, "SELECT name, size FROM file WHERE outcome = ?");
    stored.bind(1, outcomes.number(0));
    while (stored.next()) db_.run("INSERT INTO file VALUES (?, ?, ?)", stored.text(0), stored.number(1), id);
  }
  db_.run("UPDATE input SET sha256 = ?, copy_of = ? WHERE id = ?",
          part.text("SELECT sha256 FROM input WHERE id = ?", theirs),
          part.text("SELECT copy_of FROM input WHERE id = ?", theirs), ours);
}

}  // namespace kinora::core
