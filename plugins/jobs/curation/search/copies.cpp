#include "plugins/jobs/curation/search/copies.hpp"

#include <algorithm>
#include <fstream>

#include "core/base/facts.hpp"
#include "core/base/log.hpp"
#include "core/run/run_file.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;
// The sibling folder that the dedup job's summary names; empty while the job has not ended.
fs::path curated_by(const fs::path& job) {
  const std::string name = text_in(object_in_file(job / "summary.json"), "curated");
  return check_job_name(name) ? job.parent_path() / name : fs::path();
}

}  // namespace

std::vector<Decisions> decisions_in(const fs::path& run) {
  std::vector<Decisions> out;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(run, error)) {
    const fs::path file = entry.path() / "decisions.jsonl";
    if (entry.path().filename().string().front() == '.' || !fs::is_regular_file(file, error)) continue;
    if (auto curated = curated_by(entry.path()); !curated.empty()) out.push_back({file, std::move(curated)});
  }
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.file < b.file; });
  return out;
}

std::map<std::string, Drop> copies_by(const Decisions& decisions) {
  auto drops = catching([&] { return drops_in(decisions.file); });
  if (!drops) {
    log_info("copies are not left out: {}", drops.failure().message);
    return {};
  }
  std::erase_if(*drops, [](const auto& one) { return one.second.of.empty(); });
  if (const size_t outdated = take_outdated(*drops, kept_in(decisions.curated).of_key); outdated > 0)
    log_warn("{}: {} not left out: dedup has not run since the clips changed; run it again",
             decisions.file.parent_path().filename().string(),
             outdated == 1 ? "1 copy is" : fmt::format("{} copies are", outdated));
  return *std::move(drops);
}

std::set<std::string> copies_in(const fs::path& data) {
  std::set<std::string> out;
  const fs::path at = fs::weakly_canonical(data), job = at.parent_path();
  for (const auto& decisions : decisions_in(job.parent_path())) {
    std::error_code error;
    if (!fs::equivalent(decisions.curated, job, error)) continue;
    for (const auto& [key, drop] : copies_by(decisions)) out.insert(key);
  }
  if (out.empty()) return out;
  const EditHistory edits = read_edits(job / kEditsFile, kept_in(job));
  std::erase_if(out, [&](const std::string& key) { return edits.now(key).keep == true; });
  return out;
}

}  // namespace kinora::core
