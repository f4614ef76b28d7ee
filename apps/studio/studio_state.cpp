// Answers what the page shows besides the clips: names, counts, reasons, tags, saved views and the progress of jobs.
#include <algorithm>
#include <set>

#include "apps/studio/studio.hpp"
#include "core/base/expression.hpp"
#include "core/base/facts.hpp"
#include "plugins/jobs/funnel/funnel.hpp"

namespace kinora::studio {
namespace {

using nlohmann::json;

json counts_json(const Counts& counts) {
  return {{"ends", counts.ends},   {"kept_rejected", counts.kept_rejected},
          {"rules", counts.rules}, {"decisions", counts.decisions},
          {"tags", counts.tags},   {"facets", counts.facets}};
}

// The latest nine in the order of their first use, then earlier ones.
json reasons_of(const std::vector<EditJournal>& journals) {
  constexpr size_t kLatest = 9, kMost = 50;
  struct Use {
    std::string reason;
    size_t first, last;
  };
  std::unordered_map<std::string, Use> uses;
  size_t n = 0;
  for (const auto& journal : journals)
    for (const auto& edit : journal.history().all())
      if (edit.set.reason && !edit.set.reason->empty())
        uses.try_emplace(*edit.set.reason, Use{*edit.set.reason, ++n, 0}).first->second.last = ++n;
  std::vector<Use> all;
  for (auto& [reason, use] : uses) all.push_back(std::move(use));
  std::ranges::sort(all, std::greater(), &Use::last);
  std::sort(all.begin(), all.begin() + static_cast<ptrdiff_t>(std::min(kLatest, all.size())),
            [](const Use& a, const Use& b) { return a.first < b.first; });
  json out = json::array();
  for (size_t i = 0; i < std::min(kMost, all.size()); ++i) out.push_back(all[i].reason);
  return out;
}

// [name, clips] in the order of their first use.
json tags_of(const std::vector<EditJournal>& journals, const Counts& counts) {
  json out = json::array();
  std::set<std::string> named;
  const auto name = [&](const std::string& tag) {
    const auto count = counts.tags.find(tag);
    if (count != counts.tags.end() && named.insert(tag).second) out.push_back({tag, count->second});
  };
  for (const auto& journal : journals)
    for (const auto& edit : journal.history().all())
      if (edit.set.tags) std::ranges::for_each(*edit.set.tags, name);
  for (const auto& [tag, count] : counts.tags) name(tag);  // the job's own
  return out;
}

// Facts that people filter by: `set`, those of their tables, the source video, then others by name. A text that is a
// number has a histogram, and a checksum says nothing.
json facets_of(const Catalogue& catalogue, const Counts& counts) {
  constexpr size_t kGroups = 6;
  const auto rank = [](const std::string& fact) {
    return fact == "set" ? 0 : fact.starts_with(kOfUser) ? 1 : fact == "film" ? 2 : 3;
  };
  std::vector<std::string> facts;
  for (const auto& [fact, values] : counts.facets)
    if (values.size() > 1 && fact != "sha256" && !catalogue.columns.contains(fact)) facts.push_back(fact);
  std::ranges::stable_sort(facts, {}, rank);
  json out = json::array();
  for (size_t i = 0; i < std::min(kGroups, facts.size()); ++i)
    out.push_back({{"field", facts[i]}, {"name", core::fact_in_expression(facts[i])}});
  return out;
}

// How far the review is, and the run whose later jobs follow its decisions. run_file: "" if it is unknown.
json review_of(const Counts& counts, const JobFolder& job) {
  const std::string file = core::text_in(core::object_in_file(job.path / "job.json"), "file");
  return {{"all", counts.to_review},
          {"accepted", counts.accepted},
          {"rejected", counts.rejected},
          {"run_file", file},
          {"out", std::filesystem::absolute(job.path).lexically_normal().parent_path().string()}};
}

// Number of edits per job.
json seen_of(const std::vector<EditJournal>& journals) {
  json out = json::array();
  for (const auto& journal : journals) out.push_back(journal.history().all().size());
  return out;
}

// The funnel of the run whose jobs are next to these.
json funnel_beside(const std::vector<JobFolder>& jobs) {
  std::vector<std::filesystem::path> folders;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(jobs.front().path.parent_path(), error))
    if (entry.is_directory(error) && !entry.is_symlink(error) &&
        entry.path().filename().string().front() != '.')
      folders.push_back(entry.path());
  std::ranges::sort(folders);
  return core::funnel_json(core::funnel_in(folders));
}

}  // namespace

json Studio::state() {
  const Lock lock(mutex_);
  data_.refresh();
  const Catalogue& catalogue = data_.catalogue();
  const auto& journals = data_.journals();
  const Counts counts = counts_of(results_.scope()), videos = counts_of(results_.scope(), Kind::video);
  json jobs = json::array(), fields = json::array(), live = json::array(), choosers = json::array(),
       anew = json::array();
  bool can_undo = false, can_redo = false;
  std::string wrong;
  for (size_t i = 0; i < data_.jobs().size(); ++i) {
    const JobFolder& job = data_.jobs()[i];
    jobs.push_back(job.name);
    if (json now = live_of(job, catalogue.usage[i]); !now.is_null()) live.push_back(std::move(now));
    if (begins_anew(job)) anew.push_back(job.name);
  }
  for (const auto& [name, values] : catalogue.columns) fields.push_back(name);
  for (const auto& chooser : catalogue.choosers) choosers.push_back(chooser.name);
  for (const auto& journal : journals) {
    can_undo |= !journal.history().undoable(journal.author()).empty();
    can_redo |= !journal.history().redoable(journal.author()).empty();
    if (wrong.empty()) wrong = journal.wrong();
  }
  const Offer offer = meaning_.offer();
  return {
      {"title", folder_.string()},
      {"author", journals.front().author()},
      {"jobs", std::move(jobs)},
      {"choosers", std::move(choosers)},
      {"funnel", funnel_beside(data_.jobs())},
      {"version", data_.version()},
      {"seen", seen_of(journals)},
      {"fields", std::move(fields)},
      {"scores", catalogue.scores},
      {"counts", counts_json(counts)},
      {"review", review_of(counts, data_.jobs().front())},
      {"videos", counts_json(videos)},
      {"reasons", reasons_of(journals)},
      {"tags", tags_of(journals, counts)},
      {"facets", facets_of(catalogue, counts)},
      {"views", saved_views_.all()},
      {"undo", can_undo},
      {"redo", can_redo},
      {"unreadable", catalogue.unreadable},
      {"wrong", std::move(wrong)},
      {"search", {{"text", offer.text}, {"why_not_text", offer.why_not_text}, {"pictures", offer.pictures}}},
      {"live", std::move(live)},
      {"anew", std::move(anew)}};
}

}  // namespace kinora::studio
