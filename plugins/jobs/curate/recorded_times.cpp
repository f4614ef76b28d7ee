#include "plugins/jobs/curate/recorded_times.hpp"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "core/base/status.hpp"
#include "core/io/contents.hpp"
#include "core/run/job_results.hpp"
#include "plugins/jobs/curation/database.hpp"
#include "plugins/jobs/curation/record.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;

// Fills a table with the times and contents of recorded inputs, by the part of Input::identity() before the time.
void read_times(const fs::path& record, Database& times) {
  times.script(
      "CREATE TABLE time (named TEXT, modified INTEGER, sha256 TEXT, PRIMARY KEY (named, modified, sha256)) "
      "WITHOUT ROWID");
  Database db(record, Database::Access::read);
  Query rows(db, "SELECT identity, sha256 FROM input WHERE listed AND sha256 <> ''");
  while (rows.next()) {
    const std::string identity = rows.text(0);
    const size_t dash = identity.rfind('-');
    int64_t time = 0;
    if (dash == identity.npos) continue;
    const auto end = std::from_chars(identity.data() + dash + 1, identity.data() + identity.size(), time);
    if (end.ec == std::errc())
      times.run("INSERT OR IGNORE INTO time VALUES (?, ?, ?)", identity.substr(0, dash), time, rows.text(1));
  }
}

}  // namespace

void take_recorded_times(const fs::path& out, const std::string& job, InputRows& inputs) {
  const fs::path record = out / job / kRecordFile;
  if (!is_done(out / job) || !fs::exists(record)) return;
  Database times("the times of " + record.string(), Database::Access::scratch);
  if (!catching([&] { return read_times(record, times), true; })) return;
  Contents contents(kept_digests(out));
  inputs.each([&](size_t place, const Input& input) {
    if (!input.error.empty() || is_remote(input.url) || input.is_unseen()) return;
    const std::string named = fmt::format("{}-{}", input.named(), input.size);
    const auto all = times.numbers("SELECT modified FROM time WHERE named = ?", named);
    if (all.empty() || std::ranges::find(all, input.modified) != all.end()) return;
    const auto now = catching([&] { return contents.of_bytes(input.url); });
    if (!now) return;
    const auto same = times.numbers("SELECT modified FROM time WHERE named = ? AND sha256 = ?", named, *now);
    if (!same.empty()) inputs.set_time(place, same.front());
  });
  contents.save();
}

}  // namespace kinora::core
