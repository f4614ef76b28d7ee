#include "plugins/jobs/curate/curate_beginning.hpp"

#include <fmt/ranges.h>

#include "core/base/counted.hpp"
#include "core/base/log.hpp"
#include "core/run/identity.hpp"
#include "core/run/stage_graph.hpp"

namespace kinora::core {
namespace {

// "its 1 clip is", "their 3 clips are"
std::string their_clips(const Record::Void& what) {
  return fmt::format("{} {} {} removed", what.films == 1 ? "its" : "their", counted(what.clips, "clip", "clips"),
                     what.clips == 1 ? "is" : "are");
}

void say_void(const std::string& job, const Record& record) {
  const Record::Void gone = record.gone(), changed = record.changed();
  if (gone.films > 0)
    log_warn("{}: {} gone from the input: {}", job, counted(gone.films, "video is", "videos are"), their_clips(gone));
  if (changed.films > 0)
    log_info("{}: {}, {} redone: {}", job, counted(changed.films, "video has changed", "videos have changed"),
             changed.films == 1 ? "and is" : "and are", their_clips(changed));
}

}  // namespace

void say_beginning(const std::string& job, const Record& record, size_t inputs) {
  say_void(job, record);
  if (record.retried() > 0)
    log_info("{}: {} retried", job,
             counted(static_cast<int64_t>(record.retried()), "earlier failure is", "earlier failures are"));
  if (record.ended_before() > 0 || record.clips_before() > 0)
    log_info("{}: resuming: {} of {} ended, and {}", job, record.ended_before(),
             counted(static_cast<int64_t>(inputs), "input has", "inputs have"),
             counted(static_cast<int64_t>(record.clips_before()), "clip", "clips"));
}

void say_left_out(const std::string& job, const LeftOut& out) {
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
  for (const auto& manifest : out.renamed) log_warn("{}: {}", job, manifest);
  if (out.folders > 0) log_warn("{}: {}", job, folders_below(out.folders));
}

bool is_chain(const std::vector<const ComponentUse*>& stages) {
  const StageGraph graph = stage_graph(stages, [](const ComponentUse&, const std::string&) {});
  for (size_t i = 0; i < graph.order.size(); ++i) {
    const auto& from = graph.from[graph.order[i]];
    if (i == 0 ? !from.empty() : from != std::vector{graph.order[i - 1]}) return false;
  }
  return true;
}

void foresee_curate(Runtime& runtime, const RunFile& run, const JobSpec& job, const std::filesystem::path& folder,
                    int64_t retries) {
  LeftOut left_out;
  const Look look{job.options.value("recursive", false), job.options.value("all_files", false)};
  const std::string base = job_base(run, job);
  const auto known = folder.empty() ? std::vector<KnownFilm>() : known_films(folder, base);
  const auto inputs = find_inputs(runtime.io(), job.paths, look, &left_out, known, job.options.value("unseen", "keep") == "drop");
  say_left_out(job.name, left_out);
  if (folder.empty()) return;
  say_beginning(job.name, Record(folder, inputs, {base, is_chain(job.list("stages")), retries, true}),
                inputs.size());
}

}  // namespace kinora::core
