// kind = "curate": videos in, clips out, through stages on an engine. A run lists its inputs, opens the
// record of earlier runs, runs the stages over what has not ended, and writes the results
// (curate_results.hpp).
#include <algorithm>
#include <chrono>
#include <iterator>

#include <fmt/ranges.h>

#include "core/base/digest.hpp"
#include "core/base/facts.hpp"
#include "core/base/log.hpp"
#include "core/base/quantity.hpp"
#include "core/run/identity.hpp"
#include "core/run/job_folder.hpp"
#include "core/run/job_plugin.hpp"
#include "core/run/job_stages.hpp"
#include "host/stages/stage_check.hpp"
#include "host/workers/worker.hpp"
#include "plugins/jobs/curate/curate_results.hpp"
#include "plugins/jobs/curate/curate_work.hpp"
#include "plugins/jobs/curate/living_owners.hpp"
#include "plugins/jobs/curate/recorded_times.hpp"
#include "plugins/jobs/curate/shared_inputs.hpp"
#include "plugins/jobs/curate/stage_order.hpp"
#include "plugins/jobs/curation/usage.hpp"

namespace kinora::core {

class Curate final : public JobType {
 public:
  using Options = CurateOptions;
  static JobParts parts();
  void run(JobContext&) const override;
  bool share(JobContext&) const override;
  Status is_not_shared(const JobView& job) const override {
    return has_no_living_owner(job.spec().name, job.shared_folder());
  }
  void check(JobCheck&) const override;
  bool lists_inputs() const override { return true; }
  bool keeps_work() const override { return true; }
  std::shared_ptr<const JobInputs> list_inputs(const RunFile&, const JobSpec&) const override;
  void predict(const JobView&, const JobIdentity&, const std::filesystem::path& folder,
               int64_t retries) const override;
};

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

// "its 1 clip is", "their 3 clips are"
std::string clips_phrase(const Record::Count& of) {
  return fmt::format("{} {} {}", of.videos == 1 ? "its" : "their", counted(of.clips, "clip", "clips"),
                     of.clips == 1 ? "is" : "are");
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

// The videos that the job's input leads to, without keys, with their metadata: name, size and modification
// time of every file, and the columns of lists and manifests.
struct CurateInputs final : JobInputs {
  std::unique_ptr<InputRows> rows;
  LeftOut left_out;
  std::string digest;

  std::string identity() const override { return digest; }
};

// The job's own inputs, as the run has listed them. Their keys are for whoever names them last.
const CurateInputs& listed(const JobIdentity& identity) {
  return dynamic_cast<const CurateInputs&>(*identity.inputs);
}

Record::Options record_options(const JobView& view, const JobIdentity& identity,
                               const EarlierResults& earlier) {
  const JobSpec& job = view.spec();
  Record::Options out{.base = identity.base,
                      .formerly = earlier.formerly,
                      .per_clip = is_chain(job.list("stages")),
                      .retries = earlier.retries};
  for (const auto& entry : job.options.value("prune", std::vector<std::string>()))
    out.prune.push_back(
        is_remote(entry) ? entry : (view.run().file.parent_path() / entry).lexically_normal().string());
  return out;
}

// Logs how many videos are unlisted, pruned or changed with their clips, how many failures are retried, and
// how many inputs have ended.
void say_beginning(const std::string& job, const Record& record) {
  const auto &unlisted = record.unlisted(), &pruned = record.pruned(), &changed = record.changed(),
             &unseen = record.unseen();
  std::vector<std::string> warnings, notes;
  if (unseen.videos > 0)
    warnings.push_back(fmt::format("{} unavailable ({}{}); {} kept",
                                   counted(unseen.videos, "video is", "videos are"), unseen.first,
                                   unseen.videos == 1 ? "" : " the first", clips_phrase(unseen)));
  if (unlisted.videos > 0)
    warnings.push_back(fmt::format(
        "{} no longer found by the input, {} the first: {} kept; prune = [\"{}\"] removes {}",
        counted(unlisted.videos, "video is", "videos are"), unlisted.first, clips_phrase(unlisted),
        unlisted.first, unlisted.videos == 1 ? "it" : "the results of that one"));
  if (pruned.videos > 0)
    warnings.push_back(fmt::format("{} pruned: {} removed", counted(pruned.videos, "video is", "videos are"),
                                   clips_phrase(pruned)));
  if (changed.videos > 0)
    notes.push_back(fmt::format("{}, {} redone{}",
                                counted(changed.videos, "video has changed", "videos have changed"),
                                changed.videos == 1 ? "and is" : "and are",
                                changed.clips > 0 ? ": " + clips_phrase(changed) + " removed" : ""));
  if (record.retried() > 0)
    notes.push_back(counted(record.retried(), "earlier failure is", "earlier failures are") + " retried");
  if (record.ended_before() > 0 || record.clips_before() > 0)
    notes.push_back(fmt::format("resuming: {} of {} ended, and {}", record.ended_before(),
                                counted(record.inputs(), "input has", "inputs have"),
                                counted(record.clips_before(), "clip", "clips")));
  for (const auto& warning : warnings) log_warn("{}: {}", job, warning);
  for (const auto& note : notes) log_info("{}: {}", job, note);
}

const char* pictures_too(const LeftOut& out) {
  return out.pictures() > 0 ? ", pictures = true and stage picture.read the pictures" : "";
}

// Logs the inputs that were skipped on purpose, so that none is skipped silently, and keys that had to
// change.
void say_left_out(const std::string& job, const CurateInputs& listing) {
  const LeftOut& out = listing.left_out;
  std::vector<std::string> said, named;
  if (out.hidden > 0)
    named.push_back(
        counted(out.hidden, "file or folder whose name begins", "files and folders whose names begin") +
        " with a dot");
  if (out.links > 0) named.push_back(counted(out.links, "link to a folder", "links to folders"));
  if (!named.empty()) {
    const bool one = out.hidden + out.links == 1;
    said.push_back(fmt::format("{} {}; name {} to use {}", fmt::join(named, " and "),
                               one ? "is skipped" : "are skipped", one ? "it" : "them", one ? "it" : "them"));
  }
  std::vector<std::string> endings;
  for (const auto& [ending, count] : out.endings) endings.push_back(fmt::format("{} {}", count, ending));
  if (!endings.empty())
    said.push_back(fmt::format(
        "{} of folders {} ({}) and {} skipped{}; all_files = true takes {}{}",
        counted(out.not_videos(), "file", "files"),
        out.not_videos() == 1 ? "does not have the ending of a video" : "do not have endings of videos",
        fmt::join(endings, ", "), out.not_videos() == 1 ? "is" : "are", out.not_videos() == 1 ? "" : "s",
        out.not_videos() == 1 ? "it" : "them", pictures_too(out)));
  std::ranges::copy(changed_keys(*listing.rows, out), std::back_inserter(said));
  if (out.folders > 0) said.push_back(folders_below(out.folders));
  for (const auto& line : said) log_warn("{}: {}", job, line);
}

// Adds the counts of skipped inputs to summary.json.
void count_left_out(JobContext& context, const LeftOut& out) {
  context.summary["skipped"] = {{"hidden", out.hidden},
                                {"links", out.links},
                                {"folders", out.folders},
                                {"no_films", out.not_videos()},
                                {"endings", out.endings}};
}

void check_lease_at(JobCheck& check, const CurateOptions& options) {
  const auto is_other = [&](const JobSpec& job) {
    return &job != &check.spec() && job.options.value("lease", 0.0) > 0;
  };
  if (!(options.lease > 0))
    check.problem("lease_at", "lease_at does nothing without a lease; set lease = 60, or leave lease_at out");
  else if (!is_remote(options.lease_at))
    check.problem("lease_at",
                  "lease_at must be a URI such as s3://bucket/shared; processes with one output "
                  "folder need lease alone");
  else if (std::any_of(check.run().jobs.begin(), check.run().jobs.end(), is_other))
    check.problem("lease_at",
                  "another job of this file has a lease too, and one process may not get the results "
                  "of both; put the jobs into files of their own");
  else
    check.holds("lease_at",
                [&] { or_throw(check.runtime().io().store(or_throw(parse_uri(options.lease_at)).scheme)); });
}

// Resumes from the folder's record if possible. Gives the inputs their keys.
std::unique_ptr<Record> open_record(JobContext& context, InputRows& inputs) {
  const std::string& name = context.spec().name;
  const JobIdentity& identity = context.identity();
  const auto how = record_options(context, identity, earlier_results(context.folder(), identity.base));
  auto record = std::make_unique<Record>(context.folder(), inputs, how);
  const bool goes_on = record->ended_before() + record->clips_before() > 0;
  if (const std::string stage = goes_on ? keeps_state(context) : ""; !stage.empty()) {
    log_warn(
        "{}: stage '{}' keeps state over all samples (ordered = 1), so the job reruns from scratch: the "
        "results of {} inputs and {} clips are discarded",
        name, stage, record->ended_before(), record->clips_before());
    record.reset();
    remove_record(context.folder());
    return std::make_unique<Record>(context.folder(), inputs, how);
  }
  say_beginning(name, *record);
  return record;
}

}  // namespace

JobParts Curate::parts() {
  return {.slots = {kEngineSlot,
                    {.name = "stages",
                     .kind = "stage",
                     .required = true,
                     .list = true,
                     .help = "stages in "
                             "the order "
                             "in which "
                             "samples "
                             "pass them"}},
          .reads = {"path"},
          .draws = false};
}

void Curate::check(JobCheck& check) const {
  const auto& job = check.spec();
  const auto options = check.options<CurateOptions>();
  LeftOut left_out;
  const auto inputs = check.made("input", [&] {
    return glance_at_inputs(check.runtime().io(), job.paths,
                            {options.recursive, options.all_files, options.pictures}, &left_out);
  });
  if (inputs && (*inputs)->usable() == 0) {
    const std::string others =
        left_out.not_videos() > 0
            ? fmt::format(" but {} whose endings are not those of videos (all_files = true takes them{})",
                          left_out.not_videos(), pictures_too(left_out))
            : "";
    const std::string below = left_out.folders > 0 ? " (" + folders_below(left_out.folders) + ")" : "";
    std::string of_list;
    (*inputs)->each([&](size_t, const Input& input) {
      for (const auto& path : job.paths)
        if (of_list.empty() && is_listing(path) && input.error.find(path) != std::string::npos)
          of_list = input.error;
    });
    check.problem(
        "input",
        of_list.empty()
            ? fmt::format("input: there is no file in {}{}{}; name videos or a folder that contains some",
                          fmt::join(job.paths, ", "), others, below)
            : fmt::format("input: nothing that {} names can be used; the first problem: {}",
                          fmt::join(job.paths, ", "), of_list));
  }
  const auto stages = job.list("stages");
  const auto reads_pictures = [](const ComponentUse* use) { return use->id == "stage/picture.read"; };
  if (options.pictures && std::none_of(stages.begin(), stages.end(), reads_pictures))
    check.problem("pictures",
                  "pictures = true requires a stage that reads them; put \"picture.read\" first in stages");
  if (!options.lease_at.empty()) check_lease_at(check, options);
  if (check.ahead())
    for (const auto& columns : left_out.columns) log_warn("job '{}': {}", job.name, columns);
  for (const auto& path : job.paths)
    if (is_remote(path))
      check.holds("input", [&] { or_throw(check.runtime().io().store(or_throw(parse_uri(path)).scheme)); });
  for (const auto* use : job.list("stages")) check_stage(check, *use);
  check_engine(check, job.list("stages"));
  const Finding problem = [&](const ComponentUse& use, const std::string& message) {
    check.problem(use.at, message);
  };
  const Finding doubt = [&](const ComponentUse& use, const std::string& message) {
    if (check.ahead()) log_warn("{}", format(Diagnostic{use.at, "job '" + job.name + "': " + message}));
  };
  check_tensors(check.runtime().registry(), job.list("stages"), problem, doubt);
  check_order(check.runtime().registry(), job.list("stages"), problem, doubt);
}

// Lists remote folders.
std::shared_ptr<const JobInputs> Curate::list_inputs(const RunFile& run, const JobSpec& job) const {
  auto out = std::make_shared<CurateInputs>();
  const auto prune = job.options.value("prune", std::vector<std::string>());
  const Look look{job.options.value("recursive", false), job.options.value("all_files", false),
                  job.options.value("pictures", false)};
  const auto found =
      catching([&] { out->rows = find_inputs(*served_io(), job.paths, look, &out->left_out); });
  if (found) {
    take_recorded_times(run.out, job.name, *out->rows);
    out->digest = identity_of(*out->rows);
    // A finished job runs again for the videos to prune.
    if (!prune.empty()) out->digest = sha256(fmt::format("{}\n{}", out->digest, fmt::join(prune, "\n")));
    return out;
  }
  throw Error(found.failure().code,
              fmt::format("job '{}': its inputs cannot be listed, so the job does not run and the existing "
                          "results are kept: {}",
                          job.name, found.failure().message));
}

void Curate::run(JobContext& context) const {
  const auto options = context.options<CurateOptions>();
  PeakMemory memory;
  count_held_anew();
  fs::create_directories(context.folder() / "data");
  clear_work(context);
  const CurateInputs& listing = listed(context.identity());
  InputRows& inputs = *listing.rows;
  count_left_out(context, listing.left_out);
  const auto open = open_record(context, inputs);
  say_left_out(context.spec().name, listing);
  Record& record = *open;
  adopt_answers(context);
  adopt_parts(context, inputs, record);
  const Answers answers(context);
  const auto start = Clock::now();
  const PipelineResult ran = run_stages(context, options, inputs, record, {}, [&] { memory.look(); });
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  const Totals totals = write_results(context, inputs, record);
  clear_work(context);
  summarise(context, totals, inputs, record, seconds, memory.most());
  summarise_engine(context, ran.figures);
  log_outcome(context, totals);
  answers.set_aside();
}

bool Curate::share(JobContext& context) const {
  const auto options = context.options<CurateOptions>();
  if (const std::string stage = keeps_state(context); !stage.empty()) {
    const std::string why = fmt::format(
        "stage '{}' keeps state over all samples (ordered = 1), so that one process does the job alone",
        stage);
    if (!options.lease_at.empty())
      throw Error(KINORA_ERROR_UNSUPPORTED, why + "; start one without lease_at");
    log_warn("{}: {}", context.spec().name, why);
    return true;
  }
  const JobIdentity& identity = context.identity();
  InputRows& inputs = *listed(identity).rows;
  const EarlierResults earlier = earlier_results(context.folder_of(context.spec()), identity.base);
  const fs::path& before = earlier.folder;
  std::vector<bool> begun(inputs.size());
  const bool is_begun = object_in_file(before / "job.json").value("base", json()) == identity.base;
  if (is_begun && fs::exists(before / kRecordFile)) {
    auto how = record_options(context, identity, earlier);
    how.looks = true;
    const Record record(before, inputs, how);
    inputs.each([&](size_t at, const Input& input) {
      begun[at] = record.has_ended(input) || !record.ended_of(input).empty();
    });
  } else {
    name_inputs(inputs);
  }
  return share_inputs(context, options, inputs, begun);
}

void Curate::predict(const JobView& view, const JobIdentity& identity, const fs::path& folder,
                     int64_t retries) const {
  const JobSpec& job = view.spec();
  const CurateInputs& listing = listed(identity);
  name_inputs(*listing.rows);
  if (folder.empty()) {
    log_info("{}: {} to do, none of them done before", job.name,
             counted(static_cast<int64_t>(listing.rows->size()), "input", "inputs"));
  } else {
    auto options = record_options(view, identity, earlier_results(view.folder_of(job), identity.base));
    options.retries = retries;
    options.looks = true;
    say_beginning(job.name, Record(folder, *listing.rows, options));
  }
  say_left_out(job.name, listing);
}

}  // namespace kinora::core

using kinora::core::Curate;
KINORA_JOB(Curate)
KINORA_PLUGIN(Curate)
