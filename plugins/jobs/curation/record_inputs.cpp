// Keeps the results of earlier runs: finds the inputs in the record, and voids the results that this run makes again.
#include <algorithm>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "core/base/digest.hpp"
#include "core/io/wildcard.hpp"
#include "plugins/jobs/curation/clip_files.hpp"
#include "plugins/jobs/curation/record.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;

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

}  // namespace

// An input as the record knows it when the run begins.
struct Record::RecordedVideo {
  int64_t id;
  std::string key, url, identity, sha256;
  bool was_seen, has_failed;
  bool is_worth_keeping;  // it has results other than its own failure
};

void Record::find_inputs(InputRows& inputs) {
  db_.script(
      "CREATE TEMP TABLE known AS SELECT id, key, url, identity, sha256, seen, EXISTS (SELECT 1 FROM outcome "
      "WHERE input = input.id AND made = 0 AND failed), EXISTS (SELECT 1 FROM outcome WHERE outcome.input = "
      "input.id AND (made > 0 OR NOT failed)) FROM input ORDER BY place, after");
  match(inputs);
  void_stale(inputs);
  place(inputs);
  db_.script("DROP TABLE known");
}

void Record::each_known(const std::function<void(const RecordedVideo&)>& f) {
  Query rows(db_, "SELECT * FROM known ORDER BY rowid");
  while (rows.next())
    f({rows.number(0), rows.text(1), rows.text(2), rows.text(3), rows.text(4), rows.number(5) != 0,
       rows.number(6) != 0, rows.number(7) != 0});
}

// Whether a video that is not listed stays in the record.
bool Record::stays_unlisted(const RecordedVideo& video) const {
  return video.is_worth_keeping && std::none_of(options_.prune.begin(), options_.prune.end(),
                                                [&](const auto& entry) { return names(entry, video.url); });
}

// Whether nothing shows that the video or its metadata has changed since it was recorded, wherever it lies now.
bool Record::is_same(const RecordedVideo& video, const Input& input) {
  if (video.identity == input.identity()) return true;
  const std::string named = input.named();
  if (!video.identity.starts_with(named + "-")) return false;
  if (input.is_unseen()) return true;
  const bool has_size = video.identity.starts_with(fmt::format("{}-{}-", named, input.size));
  // A copy has another time of modification.
  if (!has_size || is_remote(input.url) || video.sha256.empty()) return false;
  const auto now = catching([&] { return sha256_of_file(input.url); });
  return now && *now == video.sha256;
}

// Finds each listed input in the record by its url, else as a video that was moved, and names all inputs. A
// listed input keeps its key unless its manifest gives another one; an unlisted one always.
void Record::match(InputRows& inputs) {
  inputs.forget_record();
  each_known([&](const RecordedVideo& video) {
    if (const auto at = inputs.unrecorded_at(video.url)) inputs.set_recorded(*at, video.id, video.key);
  });
  each_known([&](const RecordedVideo& video) {
    if (inputs.recorded(video.id)) return;
    const std::string file = fs::path(video.url).filename().string();
    for (auto at = is_remote(video.url) ? std::nullopt : inputs.unrecorded_called(file, 0); at;
         at = inputs.unrecorded_called(file, *at + 1))
      if (const Input input = inputs[*at];
          !is_remote(input.url) && !input.is_unseen() && is_same(video, input))
        return inputs.set_recorded(*at, video.id, video.key);
    if (!options_.named && stays_unlisted(video)) inputs.reserve(video.key);
  });
  if (!options_.named) name_inputs(inputs);
}

// Removes inputs whose results are void: changed, renamed, pruned, or without their files.
void Record::void_stale(const InputRows& inputs) {
  each_known([&](const RecordedVideo& video) {
    const auto at = inputs.recorded(video.id);
    const Input input = at ? inputs[*at] : Input{};
    const bool stays = at ? is_same(video, input) && video.key == input.key && files_are_there(video.id)
                          : stays_unlisted(video);
    const Count results = count_of(video);
    const auto add = [&](Count& to) {
      to.first = to.videos++ == 0 ? video.url : to.first;
      to.clips += results.clips;
    };
    if (!stays && (at || video.is_worth_keeping)) add(at ? changed_ : pruned_);
    if (stays && !at) add(unlisted_);
    if (stays && at && video.is_worth_keeping && input.is_unseen()) add(unseen_);
    if (stays) return;
    void_results(video.id);
    db_.run("DELETE FROM input WHERE id = ?", video.id);
  });
}

Record::Count Record::count_of(const RecordedVideo& known) {
  return {1,
          db_.number("SELECT COUNT(DISTINCT outcome.id) FROM outcome JOIN file ON file.outcome = outcome.id "
                     "WHERE input = ? AND made > 0",
                     known.id),
          {}};
}

// Writes the order of the inputs, and adds new ones. An unlisted input follows the one that it followed
// before.
void Record::place(InputRows& inputs) {
  int64_t last = -1, after = 0;
  each_known([&](const RecordedVideo& video) {
    const auto at = inputs.recorded(video.id);
    if (at) last = static_cast<int64_t>(*at), after = 0;
    const bool stays = db_.number("SELECT COUNT(*) FROM input WHERE id = ?", video.id) > 0;
    if (!stays && at) inputs.set_recorded(*at, 0, video.key);
    if (!stays) return;
    if (!at) {
      db_.run("UPDATE input SET place = ?, after = ?, listed = 0 WHERE id = ?", last, ++after, video.id);
      return;
    }
    const Input input = inputs[*at];
    const bool is_seen = !input.is_unseen();
    db_.run("UPDATE input SET place = ?, after = 0, listed = 1, seen = ? WHERE id = ?", last, is_seen,
            video.id);
    if (is_seen) renew(video, input);
    if (is_seen && !video.was_seen && video.has_failed) reopen(video.id);
  });
  inputs.each([&](size_t at, const Input& input) {
    if (input.recorded == 0)
      db_.run(
          "INSERT INTO input (key, url, identity, place, after, listed, seen) VALUES (?, ?, ?, ?, 0, 1, ?)",
          input.key, input.url, input.identity(), at, !input.is_unseen());
  });
}

// Records where the video lies now, and its identity as it is computed now.
void Record::renew(const RecordedVideo& video, const Input& input) {
  if (video.identity != input.identity())
    db_.run("UPDATE input SET identity = ? WHERE id = ?", input.identity(), video.id);
  if (video.url == input.url) return;
  db_.run("UPDATE input SET url = ? WHERE id = ?", input.url, video.id);
  db_.run("UPDATE outcome SET line = json_set(line, '$.url', ?) WHERE input = ? AND made = 0", input.url,
          video.id);
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

}  // namespace kinora::core
