#include "plugins/jobs/curation/record.hpp"

#include <algorithm>
#include <optional>
#include <set>

#include <fmt/ranges.h>

#include "core/base/facts.hpp"
#include "core/base/log.hpp"
#include "core/io/wildcard.hpp"
#include "kinora/error.hpp"
#include "plugins/jobs/curation/clip_files.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;
constexpr int64_t kVersion = 1;

// SQLite keeps this text in every record. input.place and input.after are the order: the position of a listed
// input, and that of an unlisted one behind it. outcome.input is NULL for a sample of several inputs, which
// `joined` has, or of none. outcome.parent is the key of one parent.
// input.seen: whether its file had a size and a time when the latest run began (Input::is_unseen); a failure of one that had not is
// tried again as soon as it has.
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

bool is_below(const std::string& url, const std::string& folder) {
  return url.starts_with(folder) &&
         (folder.ends_with('/') || url.size() == folder.size() || url[folder.size()] == '/');
}

// Whether an entry of the option `prune` names the url: itself, a folder above it, or a pattern.
bool names(const std::string& entry, const std::string& url) {
  const auto [folder, rest] = split_pattern(entry);
  return is_below(url, entry) || (is_pattern(entry) && url.starts_with(folder) &&
                                  matches(rest, std::string_view(url).substr(folder.size())));
}

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

// An input as the record knows it.
struct Record::Known {
  int64_t id;
  std::string key, url, identity;
  bool was_seen, has_failed;
  bool is_worth_keeping;     // it has results other than its own failure
  std::optional<size_t> at;  // its place among the listed inputs
  bool stays = true;
};

Record::Record(const fs::path& folder, std::vector<Input>& inputs, const Options& options)
    : data_(folder / "data"),
      options_(options),
      db_(folder / kRecordFile, options.looks ? Database::Access::copy : Database::Access::write) {
  Database::Transaction all(db_);
  begin(folder);
  auto known = known_inputs();
  match(known, inputs);
  void_stale(known, inputs);
  place(known, inputs);
  retry_failures();
  reopen_unfinished();
  all.commit();
  inputs_ = db_.number("SELECT COUNT(*) FROM input");
  ended_before_ = db_.number("SELECT COUNT(*) FROM outcome WHERE made = 0");
  clips_before_ = db_.number("SELECT COUNT(*) FROM outcome WHERE made > 0");
  last_before_ = db_.number("SELECT MAX(id) FROM outcome");
  if (!options_.looks) remove_strangers();
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
  if (db_.text("SELECT base FROM job") != options_.base) return start_over("it was made with other options");
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

std::vector<Record::Known> Record::known_inputs() {
  std::vector<Known> out;
  Query rows(db_,
             "SELECT id, key, url, identity, seen, EXISTS (SELECT 1 FROM outcome WHERE input = input.id AND "
             "made = 0 AND failed),"
             " EXISTS (SELECT 1 FROM outcome WHERE outcome.input = input.id AND (made > 0 OR NOT failed)) "
             "FROM input ORDER BY place, after");
  while (rows.next())
    out.push_back({rows.number(0),
                   rows.text(1),
                   rows.text(2),
                   rows.text(3),
                   rows.number(4) != 0,
                   rows.number(5) != 0,
                   rows.number(6) != 0,
                   {}});
  return out;
}

// Finds each listed input in the record by its url, and names all inputs. A listed input keeps its key unless
// its manifest gives another one; an unlisted one always.
void Record::match(std::vector<Known>& known, std::vector<Input>& inputs) {
  std::unordered_map<std::string_view, std::vector<size_t>>
      of_url;  // inputs with this url, the first one last
  for (size_t i = inputs.size(); i-- > 0;) of_url[inputs[i].url].push_back(i);
  std::unordered_set<std::string> taken;
  for (auto& film : known) {
    if (const auto at = of_url.find(film.url); at != of_url.end() && !at->second.empty()) {
      film.at = at->second.back();
      at->second.pop_back();
      inputs[*film.at].key_before = film.key;
      continue;
    }
    const bool is_pruned = std::any_of(options_.prune.begin(), options_.prune.end(),
                                       [&](const auto& entry) { return names(entry, film.url); });
    film.stays = film.is_worth_keeping && !is_pruned;
    if (film.stays) taken.insert(film.key);
  }
  name_inputs(inputs, std::move(taken));
}

// Removes inputs whose results are void: changed, renamed, pruned, or without their files.
void Record::void_stale(std::vector<Known>& known, const std::vector<Input>& inputs) {
  for (auto& film : known) {
    if (film.at) {
      const Input& input = inputs[*film.at];
      const bool is_same = input.is_unseen() ? film.identity.starts_with(input.named() + "-")
                                             : film.identity == input.identity();
      film.stays = is_same && film.key == input.key && files_are_there(film.id);
    }
    const Count results = count_of(film);
    const auto add = [&](Count& to) {
      to.first = to.films++ == 0 ? film.url : to.first;
      to.clips += results.clips;
    };
    if (!film.stays && (film.at || film.is_worth_keeping)) add(film.at ? changed_ : pruned_);
    if (film.stays && !film.at) add(unlisted_);
    if (film.stays && film.at && film.is_worth_keeping && inputs[*film.at].is_unseen()) add(unseen_);
    if (film.stays) continue;
    void_results(film.id);
    db_.run("DELETE FROM input WHERE id = ?", film.id);
  }
}

Record::Count Record::count_of(const Known& known) {
  return {1,
          db_.number("SELECT COUNT(DISTINCT outcome.id) FROM outcome JOIN file ON file.outcome = outcome.id "
                     "WHERE input = ? AND made > 0",
                     known.id),
          {}};
}

// Writes the order of the inputs, and adds new ones. An unlisted input follows the one that it followed
// before.
void Record::place(const std::vector<Known>& known, const std::vector<Input>& inputs) {
  std::vector<bool> is_known(inputs.size());
  int64_t last = -1, after = 0;
  for (const auto& film : known) {
    if (film.at) last = static_cast<int64_t>(*film.at), after = 0;
    if (!film.stays) continue;
    if (!film.at) {
      db_.run("UPDATE input SET place = ?, after = ?, listed = 0 WHERE id = ?", last, ++after, film.id);
      continue;
    }
    is_known[*film.at] = true;
    const bool is_seen = !inputs[*film.at].is_unseen();
    db_.run("UPDATE input SET place = ?, after = 0, listed = 1, seen = ? WHERE id = ?", *film.at, is_seen,
            film.id);
    if (is_seen && !film.was_seen && film.has_failed) reopen(film.id);
  }
  for (size_t i = 0; i < inputs.size(); ++i)
    if (!is_known[i])
      db_.run(
          "INSERT INTO input (key, url, identity, place, after, listed, seen) VALUES (?, ?, ?, ?, 0, 1, ?)",
          inputs[i].key, inputs[i].url, inputs[i].identity(), i, !inputs[i].is_unseen());
}

void Record::retry_failures() {
  if (options_.retries <= db_.number("SELECT retries FROM job")) return;
  db_.run("UPDATE job SET retries = ?", options_.retries);
  constexpr const char* kFailed =
      "SELECT input.id FROM outcome JOIN input ON input.id = outcome.input WHERE failed AND listed"
      " UNION ALL SELECT joined.input FROM outcome JOIN joined ON joined.outcome = outcome.id JOIN input ON "
      "input.id = joined.input WHERE failed AND listed";
  const auto failed = db_.numbers(kFailed);
  retried_ = db_.number("SELECT COUNT(*) FROM outcome WHERE failed");
  for (const int64_t id : std::set<int64_t>(failed.begin(), failed.end())) reopen(id);
  retried_ -= db_.number("SELECT COUNT(*) FROM outcome WHERE failed");
}

// A run was interrupted in the inputs that have results and no outcome.
void Record::reopen_unfinished() {
  for (const int64_t id :
       db_.numbers("SELECT DISTINCT input FROM outcome AS one WHERE input IS NOT NULL AND NOT EXISTS"
                   " (SELECT 1 FROM outcome WHERE input = one.input AND made = 0)"))
    reopen(id);
  constexpr const char* kUnfinishedJoin =
      "SELECT input FROM joined WHERE NOT EXISTS (SELECT 1 FROM outcome WHERE outcome.input = joined.input "
      "AND made = 0) LIMIT 1";
  for (auto ids = db_.numbers(kUnfinishedJoin); !ids.empty(); ids = db_.numbers(kUnfinishedJoin))
    void_results(ids.front());
}

// Voids the input's own outcome and its failures, with the samples that these were made of, since nothing
// else makes them again. A sample of several parents may be made of others in the next run, so then
// everything is void.
void Record::reopen(int64_t input) {
  const bool is_joined = db_.number(
                             "SELECT EXISTS (SELECT 1 FROM joined WHERE input = ?1) OR EXISTS (SELECT 1 FROM "
                             "outcome WHERE input = ?1 AND parents > 1)",
                             input) != 0;
  if (!options_.per_clip || is_joined) {
    void_results(input);
    return;
  }
  db_.run("DELETE FROM outcome WHERE input = ? AND made = 0", input);
  db_.run(
      "WITH RECURSIVE again(key) AS (SELECT key FROM outcome WHERE input = ?1 AND failed"
      " UNION SELECT parent FROM outcome JOIN again ON outcome.key = again.key WHERE input = ?1)"
      " DELETE FROM outcome WHERE input = ?1 AND key IN (SELECT key FROM again)",
      input);
}

// Voids all outcomes of the input, of samples made of it, and of all inputs that such a sample was made of
// too. Returns the names of their files.
std::vector<std::string> Record::void_results(int64_t input) {
  std::vector<std::string> files;
  std::vector<int64_t> open{input};
  std::unordered_set<int64_t> seen{input};
  while (!open.empty()) {
    const int64_t id = open.back();
    open.pop_back();
    for (const int64_t other : db_.numbers("SELECT DISTINCT b.input FROM joined AS a JOIN joined AS b ON "
                                           "a.outcome = b.outcome WHERE a.input = ?",
                                           id))
      if (seen.insert(other).second) open.push_back(other);
    for (auto& name : db_.texts("SELECT name FROM file WHERE outcome IN (SELECT id FROM outcome WHERE input "
                                "= ?1 UNION ALL SELECT outcome FROM joined WHERE input = ?1)",
                                id))
      files.push_back(std::move(name));
    db_.run("DELETE FROM outcome WHERE id IN (SELECT outcome FROM joined WHERE input = ?)", id);
    db_.run("DELETE FROM outcome WHERE input = ?", id);
    db_.run("UPDATE input SET copy_of = '' WHERE id = ?", id);
  }
  return files;
}

bool Record::files_are_there(int64_t input) {
  Query files(db_,
              "SELECT name, size FROM file WHERE outcome IN (SELECT id FROM outcome WHERE input = ?1 UNION "
              "ALL SELECT outcome FROM joined WHERE input = ?1)");
  files.bind(1, input);
  while (files.next())
    if (!is_stored(data_, files.text(0), files.number(1))) return false;
  return true;
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
  for (const int64_t input : db_.numbers("SELECT id FROM input ORDER BY place, after")) {
    Query outcomes(db_, "SELECT id, made, line FROM outcome WHERE input = ? ORDER BY made > 0, key, line");
    outcomes.bind(1, input);
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
    fs::remove(folder / (std::string(kRecordFile) + suffix));
}

}  // namespace kinora::core
