#include "plugins/jobs/curation/recorded_times.hpp"

#include <algorithm>
#include <charconv>
#include <map>

#include <fmt/format.h>

#include "core/base/status.hpp"
#include "core/io/contents.hpp"
#include "core/run/job_results.hpp"
#include "plugins/jobs/curation/database.hpp"
#include "plugins/jobs/curation/record.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;

struct Recorded {
  int64_t modified;
  std::string sha256;
};

// By the part of Input::identity() before the time.
using RecordedTimes = std::map<std::string, std::vector<Recorded>>;

RecordedTimes recorded_times(const fs::path& record) {
  RecordedTimes out;
  Database db(record, Database::Access::read);
  Query rows(db, "SELECT identity, sha256 FROM input WHERE listed AND sha256 <> ''");
  while (rows.next()) {
    const std::string identity = rows.text(0);
    const size_t dash = identity.rfind('-');
    int64_t time = 0;
    if (dash == identity.npos) continue;
    const auto end = std::from_chars(identity.data() + dash + 1, identity.data() + identity.size(), time);
    if (end.ec == std::errc()) out[identity.substr(0, dash)].push_back({time, rows.text(1)});
  }
  return out;
}

}  // namespace

void take_recorded_times(const fs::path& out, const std::string& job, std::vector<Input>& inputs) {
  const fs::path record = out / job / kRecordFile;
  if (!is_done(out / job) || !fs::exists(record)) return;
  const auto known = catching([&] { return recorded_times(record); });
  if (!known) return;
  Contents contents(kept_digests(out));
  for (Input& input : inputs) {
    if (!input.error.empty() || is_remote(input.url) || input.is_unseen()) continue;
    const auto at = known->find(fmt::format("{}-{}", input.named(), input.size));
    if (at == known->end()) continue;
    const auto has_time = [&](const Recorded& one) { return one.modified == input.modified; };
    if (std::ranges::any_of(at->second, has_time)) continue;
    const auto now = catching([&] { return contents.of_bytes(input.url); });
    if (!now) continue;
    const auto same = std::ranges::find(at->second, *now, &Recorded::sha256);
    if (same != at->second.end()) input.modified = same->modified;
  }
  contents.save();
}

}  // namespace kinora::core
