#include "apps/studio/copies.hpp"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <set>

#include "core/curate/drops.hpp"
#include "core/log.hpp"
#include "core/search/copies.hpp"
#include "core/status.hpp"

namespace kinora::studio {
namespace {

namespace fs = std::filesystem;
using Drops = std::map<std::string, core::Drop>;

// decisions.jsonl of the dedup jobs that have ended, of all runs that the jobs are in.
std::vector<fs::path> decisions_beside(const std::vector<JobFolder>& jobs) {
  std::set<fs::path> runs;
  for (const auto& job : jobs) runs.insert(job.path.parent_path());
  std::vector<fs::path> out;
  for (const auto& run : runs)
    for (auto& file : core::decisions_in(run)) out.push_back(std::move(file));
  return out;
}

int64_t lines_in(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return std::count(std::istreambuf_iterator<char>(in), {}, '\n');
}

bool has_kept(const Catalogue& catalogue, size_t job, const std::string& key) {
  const Clip* clip = catalogue.find(catalogue.jobs[job].name + "/" + key);
  return clip && clip->end == End::kept;
}

// The job that has kept all that the decisions name, of several the one with as many clips as there are
// decisions; as many as there are jobs: none.
size_t job_of(const Catalogue& catalogue, const fs::path& file, const Drops& drops) {
  std::vector<size_t> found;
  for (size_t job = 0; job < catalogue.jobs.size(); ++job)
    if (catalogue.jobs[job].path.parent_path() == file.parent_path().parent_path() &&
        source_of(catalogue.jobs[job]) == Source::items &&
        std::all_of(drops.begin(), drops.end(), [&](const auto& drop) {
          return has_kept(catalogue, job, drop.first) &&
                 (drop.second.of.empty() || has_kept(catalogue, job, drop.second.of));
        }))
      found.push_back(job);
  if (found.empty()) return catalogue.jobs.size();
  const auto kept = [&](size_t job) {
    return std::count_if(catalogue.clips.begin(), catalogue.clips.end(), [&](const Clip& clip) {
      return clip.job == job && clip.end == End::kept && !clip.consumed;
    });
  };
  const int64_t decided = found.size() == 1 ? 0 : lines_in(file);
  const auto exact =
      std::find_if(found.begin(), found.end(), [&](size_t job) { return kept(job) == decided; });
  return exact == found.end() ? found.front() : *exact;
}

}  // namespace

void mark_copies(Catalogue& catalogue) {
  for (const auto& file : decisions_beside(catalogue.jobs)) {
    const auto drops = core::catching([&] { return core::drops_in(file); });
    if (!drops) core::log_info("studio: copies are not marked: {}", drops.failure().message);
    const size_t job = drops ? job_of(catalogue, file, *drops) : catalogue.jobs.size();
    if (job == catalogue.jobs.size()) continue;
    for (const auto& [key, drop] : *drops) {
      if (drop.of.empty()) continue;
      Clip& clip = catalogue.clips[catalogue.by_id.at(catalogue.jobs[job].name + "/" + key)];
      clip.copy_of = drop.of;
      clip.copy_rule = drop.rule;
      clip.copy_score = drop.score;
    }
  }
}

std::string copies_stamp(const std::vector<JobFolder>& jobs) {
  std::string out;
  for (const auto& file : decisions_beside(jobs)) {
    std::error_code error;
    out += file.string() + std::to_string(fs::last_write_time(file, error).time_since_epoch().count()) + ";";
  }
  return out;
}

}  // namespace kinora::studio
