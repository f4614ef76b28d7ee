#include "plugins/jobs/curate/curate_beginning.hpp"

#include <fmt/ranges.h>

#include "core/base/quantity.hpp"
#include "core/base/log.hpp"
#include "core/run/identity.hpp"
#include "core/run/job_stages.hpp"

namespace kinora::core {
namespace {

// "its 1 clip is", "their 3 clips are"
std::string their_clips(const Record::Count& of) {
  return fmt::format("{} {} {}", of.films == 1 ? "its" : "their", counted(of.clips, "clip", "clips"), of.clips == 1 ? "is" : "are");
}

// Whether every stage reads one other stage's output and no two read the same: then a clip has one outcome.
bool is_chain(const std::vector<const ComponentUse*>& stages) {
  const StageGraph graph = stage_graph(stages, [](const ComponentUse&, const std::string&) {});
  for (size_t i = 0; i < graph.order.size(); ++i) {
    const auto& from = graph.from[graph.order[i]];
    if (i == 0 ? !from.empty() : from != std::vector{graph.order[i - 1]}) return false;
  }
  return true;
}

}  // namespace

const Listing& listed_inputs(Io& io, const JobSpec& job) {
  if (!job.listing) {
    auto listing = std::make_shared<Listing>();
    const Look look{job.options.value("recursive", false), job.options.value("all_files", false)};
    listing->inputs = find_inputs(io, job.paths, look, &listing->left_out);
    job.listing = listing;
  }
  return *static_cast<const Listing*>(job.listing.get());
}

Record::Options record_options(const RunFile& run, const JobSpec& job, int64_t retries) {
  Record::Options out{.base = job_base(run, job), .per_clip = is_chain(job.list("stages")), .retries = retries};
  for (const auto& entry : job.options.value("prune", std::vector<std::string>()))
    out.prune.push_back(is_remote(entry) ? entry : (run.file.parent_path() / entry).lexically_normal().string());
  return out;
}

void say_beginning(const std::string& job, const Record& record) {
  const auto &unlisted = record.unlisted(), &pruned = record.pruned(), &changed = record.changed(), &unseen = record.unseen();
  if (unseen.films > 0)
    log_warn("{}: {} not there now, {} the first: {} kept until {} seen again", job, counted(unseen.films, "video is", "videos are"), unseen.first,
             their_clips(unseen), unseen.films == 1 ? "it is" : "they are");
  if (unlisted.films > 0)
    log_warn("{}: {} no longer found by the input, {} the first: {} kept; prune = [\"{}\"] removes {}", job,
             counted(unlisted.films, "video is", "videos are"), unlisted.first, their_clips(unlisted), unlisted.first,
             unlisted.films == 1 ? "it" : "the results of that one");
  if (pruned.films > 0)
    log_warn("{}: {} pruned: {} removed", job, counted(pruned.films, "video is", "videos are"), their_clips(pruned));
  if (changed.films > 0)
    log_info("{}: {}, {} redone: {} removed", job, counted(changed.films, "video has changed", "videos have changed"),
             changed.films == 1 ? "and is" : "and are", their_clips(changed));
  if (record.retried() > 0)
    log_info("{}: {} retried", job, counted(record.retried(), "earlier failure is", "earlier failures are"));
  if (record.ended_before() > 0 || record.clips_before() > 0)
    log_info("{}: resuming: {} of {} ended, and {}", job, record.ended_before(), counted(record.inputs(), "input has", "inputs have"),
             counted(record.clips_before(), "clip", "clips"));
}

void say_left_out(const std::string& job, const Listing& listing) {
  const LeftOut& out = listing.left_out;
  std::vector<std::string> named;
  if (out.hidden > 0)
    named.push_back(counted(out.hidden, "file or folder whose name begins", "files and folders whose names begin") +
                    " with a dot");
  if (out.links > 0) named.push_back(counted(out.links, "link to a folder", "links to folders"));
  if (!named.empty()) {
    const bool one = out.hidden + out.links == 1;
    log_warn("{}: {} {}; name {} to use {}", job, fmt::join(named, " and "), one ? "is skipped" : "are skipped",
             one ? "it" : "them", one ? "it" : "them");
  }
  std::vector<std::string> endings;
  for (const auto& [ending, count] : out.endings) endings.push_back(fmt::format("{} {}", count, ending));
  if (!endings.empty())
    log_warn("{}: {} of folders {} ({}) and {} skipped{}; all_files = true takes {}", job,
             counted(out.no_films(), "file", "files"),
             out.no_films() == 1 ? "does not have the ending of a video" : "do not have endings of videos", fmt::join(endings, ", "),
             out.no_films() == 1 ? "is" : "are", out.no_films() == 1 ? "" : "s", out.no_films() == 1 ? "it" : "them");
  for (const auto& manifest : changed_keys(listing.inputs, out)) log_warn("{}: {}", job, manifest);
  if (out.folders > 0) log_warn("{}: {}", job, folders_below(out.folders));
}

void foresee_curate(Runtime& runtime, const RunFile& run, const JobSpec& job, const std::filesystem::path& folder,
                    int64_t retries) {
  Listing listing = listed_inputs(runtime.io(), job);
  name_inputs(listing.inputs);
  if (!folder.empty()) {
    auto options = record_options(run, job, retries);
    options.looks = true;
    say_beginning(job.name, Record(folder, listing.inputs, options));
  }
  say_left_out(job.name, listing);
}

}  // namespace kinora::core
