#include "plugins/jobs/curation/record.hpp"

#include <algorithm>

#include <fmt/ranges.h>

#include "core/base/facts.hpp"
#include "core/base/log.hpp"
#include "kinora/error.hpp"
#include "plugins/jobs/curation/clip_files.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;
constexpr int64_t kVersion = 1;

// docs/formats/record.md describes every column. SQLite keeps this text in every record.
constexpr const char* kTables = R"sql(
CREATE TABLE job (version INTEGER, base TEXT, retries INTEGER);
CREATE TABLE input (
  id INTEGER PRIMARY KEY, key TEXT UNIQUE, url TEXT, identity TEXT, sha256 TEXT DEFAULT '', copy_of TEXT DEFAULT '',
  place INTEGER, after INTEGER, listed INTEGER, seen INTEGER);
CREATE TABLE outcome (
  id INTEGER PRIMARY KEY AUTOINCREMENT, input INTEGER REFERENCES input(id) ON DELETE CASCADE,
  key TEXT, made INTEGER, failed INTEGER, parent TEXT, parents INTEGER, line TEXT);
CREATE TABLE joined (
  outcome INTEGER REFERENCES outcome(id) ON DELETE CASCADE, input INTEGER, PRIMARY KEY (outcome, input)) WITHOUT ROWID;
CREATE TABLE file (
  name TEXT PRIMARY KEY, size INTEGER, outcome INTEGER REFERENCES outcome(id) ON DELETE CASCADE) WITHOUT ROWID;
CREATE INDEX outcomes_of_input ON outcome(input, made, key);
CREATE INDEX outcomes_by_key ON outcome(key);
CREATE INDEX joined_by_input ON joined(input);
CREATE INDEX files_of_outcome ON file(outcome);
)sql";

std::string line_text(const json& line) { return line.dump(-1, ' ', false, json::error_handler_t::replace); }

}  // namespace

Lineage Lineage::of(const kinora_outcome& outcome) {
  if (!KINORA_HAS(&outcome, n_parents))
    throw Error(
        KINORA_ERROR_INVALID,
        "the engine does not report what samples are made of (kinora_outcome.inputs); update its plugin");
  Lineage out{outcome.made};
  for (uint32_t i = 0; i < outcome.n_inputs; ++i) out.inputs.emplace_back(view(outcome.inputs[i]));
  for (uint32_t i = 0; i < outcome.n_parents; ++i) out.parents.emplace_back(view(outcome.parents[i]));
  return out;
}

Record::Record(const fs::path& folder, InputRows& inputs, const Options& options)
    : data_(folder / "data"),
      options_(options),
      db_(folder / kRecordFile, options.looks ? Database::Access::copy : Database::Access::write) {
  Database::Transaction all(db_);
  begin(folder);
  find_inputs(inputs);
  retry_failures();
  reopen_unfinished();
  all.commit();
  count_before();
  if (!options_.looks) remove_strangers();
}

void Record::count_before() {
  inputs_ = db_.number("SELECT COUNT(*) FROM input");
  ended_before_ = db_.number("SELECT COUNT(*) FROM outcome WHERE made = 0");
  clips_before_ = db_.number("SELECT COUNT(*) FROM outcome WHERE made > 0");
  last_before_ = db_.number("SELECT MAX(id) FROM outcome");
}

// Leaves one file, which can be read from a read-only folder too.
Record::~Record() {
  try {
    if (!options_.looks) db_.script("PRAGMA journal_mode = DELETE");
  } catch (const Error&) {
    // Another process is reading it.
  }
}

void Record::begin(const fs::path& folder) {
  const bool is_new = db_.number("SELECT COUNT(*) FROM sqlite_schema WHERE name = 'job'") == 0;
  if (is_new) db_.script(kTables);
  const fs::path old = folder / "journal.jsonl";
  if (is_new && fs::exists(old)) {
    log_warn(
        "{}: the results were recorded by an earlier Kinora (journal.jsonl), so the job reruns from scratch",
        folder.string());
    if (!options_.looks) fs::remove(old);
  }
  if (!is_new && db_.number("SELECT version FROM job") != kVersion)
    throw Error(KINORA_ERROR_UNSUPPORTED,
                (folder / kRecordFile).string() +
                    ": another version of Kinora wrote it; use that version, or delete "
                    "the file to run the job from scratch");
  if (is_new) return db_.run("INSERT INTO job VALUES (?, ?, ?)", kVersion, options_.base, options_.retries);
  if (const std::string base = db_.text("SELECT base FROM job"); base != options_.base) {
    if (std::ranges::find(options_.formerly, base) == options_.formerly.end())
      return start_over("it was made with other options");
    db_.run("UPDATE job SET base = ?", options_.base);
  }
  if (db_.number(
          "SELECT COUNT(*) FROM outcome WHERE input IS NULL AND id NOT IN (SELECT outcome FROM joined)") > 0)
    start_over("a stage's finish() made samples of no input");
}

void Record::start_over(const std::string& why) {
  log_warn("{}: the existing results cannot be used: {}; the job reruns from scratch",
           data_.parent_path().string(), why);
  db_.script("DELETE FROM outcome; DELETE FROM input; DELETE FROM job");
  db_.run("INSERT INTO job VALUES (?, ?, ?)", kVersion, options_.base, options_.retries);
}

void Record::remove_strangers() {
  remove_unless(data_, [&](const std::string& name) {
    return db_.number("SELECT COUNT(*) FROM file WHERE name = ?", name) > 0;
  });
}

int64_t Record::id_of(const Input& input) const {
  return db_.number("SELECT id FROM input WHERE key = ?", input.key);
}

bool Record::has_ended(const Input& input) const {
  const std::lock_guard lock(mutex_);
  return db_.number("SELECT COUNT(*) FROM outcome WHERE input = ? AND made = 0", id_of(input)) > 0;
}

std::vector<std::string> Record::ended_of(const Input& input) const {
  const std::lock_guard lock(mutex_);
  return db_.texts("SELECT DISTINCT key FROM outcome WHERE input = ? AND made > 0 ORDER BY key",
                   id_of(input));
}

std::string Record::content(const Input& input) const {
  const std::lock_guard lock(mutex_);
  return db_.text("SELECT sha256 FROM input WHERE key = ?", input.key);
}

std::map<std::string, int64_t> Record::ends(bool made) const {
  const std::lock_guard lock(mutex_);
  std::map<std::string, int64_t> out;
  Query counts(db_,
               "SELECT json_extract(line, '$.end'), COUNT(*) FROM outcome WHERE (made > 0) = ? GROUP BY 1");
  counts.bind(1, int64_t{made});
  while (counts.next()) out[counts.text(0)] = counts.number(1);
  return out;
}

void Record::set_content(const Input& input, const std::string& sha256) {
  const std::lock_guard lock(mutex_);
  db_.run("UPDATE input SET sha256 = ? WHERE key = ?", sha256, input.key);
}

std::string Record::duplicate_of(const Input& input) const {
  const std::lock_guard lock(mutex_);
  return db_.text("SELECT copy_of FROM input WHERE key = ?", input.key);
}

std::unordered_map<std::string, std::string> Record::unlisted_contents() const {
  const std::lock_guard lock(mutex_);
  std::unordered_map<std::string, std::string> out;
  Query rows(db_, "SELECT sha256, key FROM input WHERE NOT listed AND sha256 <> '' AND copy_of = ''");
  while (rows.next()) out.emplace(rows.text(0), rows.text(1));
  return out;
}

void Record::forget(const Input& input) {
  const std::lock_guard lock(mutex_);
  Database::Transaction all(db_);
  const auto files = void_results(id_of(input));
  all.commit();
  remove_stored(data_, files);
}

bool Record::knows(const std::string& key, bool made) const {
  const std::lock_guard lock(mutex_);
  return made && db_.number("SELECT COUNT(*) FROM outcome WHERE key = ? AND made > 0 AND id <= ?", key,
                            last_before_) > 0;
}

bool Record::has_stored(const std::string& key) const {
  const std::lock_guard lock(mutex_);
  return db_.number("SELECT COUNT(*) FROM outcome JOIN file ON file.outcome = outcome.id WHERE key = ?",
                    key) > 0;
}

void Record::end(const json& line, const Lineage& lineage, const json& files) {
  const std::lock_guard lock(mutex_);
  Database::Transaction all(db_);
  const std::string key = text_in(line, "key"), copied = text_in(line, "of");
  const auto id = [&](const std::string& of) { return db_.number("SELECT id FROM input WHERE key = ?", of); };
  constexpr const char* kAdd =
      "INSERT INTO outcome (input, key, made, failed, parent, parents, line) VALUES (?, ?, ?, ?, ?, ?, ?)";
  const std::string parent = lineage.parents.empty() ? "" : lineage.parents.front();
  const bool has_failed = text_in(line, "end") == "failed";
  if (lineage.inputs.size() == 1)
    db_.run(kAdd, id(lineage.inputs.front()), key, lineage.made, has_failed, parent, lineage.parents.size(),
            line_text(line));
  else
    db_.run(kAdd, nullptr, key, lineage.made, has_failed, parent, lineage.parents.size(), line_text(line));
  const int64_t outcome = db_.last_id();
  if (lineage.inputs.size() > 1)
    for (const auto& input : lineage.inputs) db_.run("INSERT INTO joined VALUES (?, ?)", outcome, id(input));
  for (const auto& [name, size] : files.items())
    db_.run("INSERT INTO file VALUES (?, ?, ?)", name, size.get<int64_t>(), outcome);
  if (!copied.empty()) db_.run("UPDATE input SET copy_of = ? WHERE key = ?", copied, key);
  all.commit();
}

void Record::check_all_ended() {
  constexpr const char* kLost =
      "SELECT key FROM input WHERE listed AND NOT EXISTS (SELECT 1 FROM outcome WHERE outcome.input = "
      "input.id AND made = 0) ORDER BY place";
  const auto lost = db_.texts(kLost);
  if (lost.empty()) return;
  const size_t shown = std::min<size_t>(lost.size(), 5);
  throw Error(KINORA_ERROR_FAILED,
              fmt::format("the engine lost {} of {} inputs ({}{}): they have no outcome; run again, and "
                          "please report this as a bug",
                          lost.size(), inputs_,
                          fmt::join(lost.begin(), lost.begin() + static_cast<ptrdiff_t>(shown), ", "),
                          lost.size() > shown ? ", ..." : ""));
}

void Record::each(const std::function<void(const json&, bool, const json&)>& f) {
  const std::lock_guard lock(mutex_);
  check_all_ended();
  const auto tell = [&](Query& outcomes) {
    while (outcomes.next()) {
      json files = json::object();
      Query stored(db_, "SELECT name, size FROM file WHERE outcome = ?");
      stored.bind(1, outcomes.number(0));
      while (stored.next()) files[stored.text(0)] = stored.number(1);
      f(parse_facts(outcomes.text(2)), outcomes.number(1) != 0, files);
    }
  };
  Query inputs(db_, "SELECT id FROM input ORDER BY place, after");
  while (inputs.next()) {
    Query outcomes(db_, "SELECT id, made, line FROM outcome WHERE input = ? ORDER BY made > 0, key, line");
    outcomes.bind(1, inputs.number(0));
    tell(outcomes);
  }
  Query others(db_, "SELECT id, made, line FROM outcome WHERE input IS NULL ORDER BY key, line");
  tell(others);
}

void read_record(const fs::path& folder, const std::function<void(int64_t, const std::string&)>& f) {
  Database db(folder / kRecordFile, Database::Access::read);
  if (db.number("SELECT COUNT(*) FROM sqlite_schema WHERE name = 'outcome'") == 0)
    return;  // the job is beginning
  Query outcomes(db, "SELECT id, line FROM outcome ORDER BY id");
  while (outcomes.next()) f(outcomes.number(0), outcomes.text(1));
}

std::string record_line(const fs::path& folder, int64_t id) {
  return Database(folder / kRecordFile, Database::Access::read)
      .text("SELECT line FROM outcome WHERE id = ?", id);
}

void remove_record(const fs::path& folder) {
  for (const char* suffix : {"", "-wal", "-shm", "-journal"})
    fs::remove_all(folder / (std::string(kRecordFile) + suffix));
}

}  // namespace kinora::core
