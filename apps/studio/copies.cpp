#include "apps/studio/copies.hpp"

#include <algorithm>
#include <set>

#include "plugins/jobs/curation/drops.hpp"

namespace kinora::studio {
namespace {

namespace fs = std::filesystem;

// Decisions of the finished dedup jobs in all runs that the jobs belong to.
std::vector<core::Decisions> decisions_beside(const std::vector<JobFolder>& jobs) {
  std::set<fs::path> runs;
  for (const auto& job : jobs) runs.insert(job.path.parent_path());
  std::vector<core::Decisions> out;
  for (const auto& run : runs)
    for (auto& decisions : core::decisions_in(run)) out.push_back(std::move(decisions));
  return out;
}

// The finished job whose clips were compared; null: the studio does not show it.
const JobFolder* job_of(const Catalogue& catalogue, const fs::path& curated) {
  const auto at = std::find_if(catalogue.jobs.begin(), catalogue.jobs.end(), [&](const JobFolder& job) {
    std::error_code error;
    return fs::equivalent(job.path, curated, error) && source_of(job) == Source::items;
  });
  return at == catalogue.jobs.end() ? nullptr : &*at;
}

}  // namespace

void mark_copies(Catalogue& catalogue) {
  for (const auto& decisions : decisions_beside(catalogue.jobs)) {
    const JobFolder* job = job_of(catalogue, decisions.curated);
    if (!job) continue;
    for (const auto& [key, drop] : core::copies_by(decisions)) {
      const auto at = catalogue.by_id.find(job->name + "/" + key);
      if (at == catalogue.by_id.end() || catalogue.clips[at->second].end != End::kept) continue;
      Clip& clip = catalogue.clips[at->second];
      clip.copy_of = drop.of;
      clip.copy_rule = drop.rule;
      clip.copy_score = drop.score;
    }
  }
}

std::string copies_stamp(const std::vector<JobFolder>& jobs) {
  std::string out;
  for (const auto& decisions : decisions_beside(jobs)) {
    std::error_code error;
    out += decisions.file.string() + std::to_string(fs::last_write_time(decisions.file, error).time_since_epoch().count()) + ";";
  }
  return out;
}

}  // namespace kinora::studio
