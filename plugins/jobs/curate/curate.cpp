#include "plugins/jobs/curate/curate.hpp"

#include <algorithm>
#include <chrono>
#include <mutex>

#include "core/base/facts.hpp"
#include "plugins/jobs/curation/ingest.hpp"
#include "plugins/jobs/curation/item_line.hpp"
#include "plugins/jobs/curation/store.hpp"
#include "plugins/jobs/curation/usage.hpp"
#include "plugins/jobs/curate/curate_beginning.hpp"
#include "plugins/jobs/curate/curate_results.hpp"
#include "plugins/jobs/curation/peak_memory.hpp"
#include "plugins/jobs/curation/pipeline.hpp"
#include "core/base/log.hpp"
#include "core/base/digest.hpp"
#include "core/run/identity.hpp"
#include "core/run/job_stages.hpp"
#include "core/run/job_folder.hpp"
#include "plugins/jobs/curate/stage_order.hpp"
#include "plugins/jobs/curate/tensor_flow.hpp"
#include "core/workers/worker.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
constexpr uint32_t kKeepsState = 1;  // kinora_resources.ordered

// Files that stages keep next to the results while they work on a video (video.remux); removed when its input
// ends.
fs::path work_folder(const JobContext& context) { return context.folder() / "work"; }

// Answers that stages have paid for (plugins/stages/endpoint/kept_answers.hpp).
fs::path answers_folder(const JobContext& context) { return context.folder() / "answers"; }
// Where the answers go when the job is done: a job that starts over with other options finds them here.
fs::path old_answers_folder(const JobContext& context) { return context.folder() / ".answers"; }

void remove_work(const JobContext& context, const Sample& film) {
  const auto url = film.text("url");
  const std::string work = work_folder(context).string() + "/";
  std::error_code ignored;
  if (url && url->starts_with(work) && url->find("..") == std::string_view::npos) fs::remove(fs::path(*url), ignored);
}

// Holds the answers folder for stages that may query servers; its destructor removes the folder if it is
// empty.
class Answers {
 public:
  explicit Answers(const JobContext& context)
      : folder_(answers_folder(context)), old_(old_answers_folder(context)) {
    if (fs::exists(old_) && !fs::exists(folder_)) fs::rename(old_, folder_);
    fs::create_directories(folder_);
  }
  // Not called for a failed run, which reuses the answers when it resumes.
  void set_aside() const {
    fs::remove_all(old_);
    if (!fs::is_empty(folder_)) fs::rename(folder_, old_);
  }
  ~Answers() {
    std::error_code ignored;  // not empty: answers stay
    fs::remove(folder_, ignored);
  }
  Answers(const Answers&) = delete;
  Answers& operator=(const Answers&) = delete;

 private:
  const fs::path folder_, old_;
};

// Stages whose output no other stage reads.
std::vector<std::string> last_stages(const std::vector<const ComponentUse*>& stages) {
  const StageGraph graph = stage_graph(stages, [](const ComponentUse&, const std::string&) {});
  std::set<size_t> taken;
  for (const auto& from : graph.from) taken.insert(from.begin(), from.end());
  std::vector<std::string> out;
  for (size_t i = 0; i < stages.size(); ++i)
    if (!taken.contains(i)) out.push_back(stages[i]->called());
  return out;
}

// Stores kept samples and records every outcome.
class Keeper {
 public:
  Keeper(JobContext& context, Record& record, const std::vector<Input>& inputs) : context_(context), record_(record) {
    for (const auto& input : inputs) urls_.emplace(input.key, input.url), ++named_[with_folder(input.url, 0)];
    last_ = fmt::format("{}", fmt::join(last_stages(context.spec().list("stages")), "' or '"));
  }

  void end(const Sample& sample, const kinora_outcome& outcome) {
    const std::string key = valid_utf8(sample.key());  // as the record spells it
    const bool made = outcome.made != 0, stores = outcome.end == KINORA_KEPT && !outcome.consumed;
    if (!made) remove_work(context_, sample);
    if (record_.knows(key, made)) return;
    if (const std::string why = stores && made ? problem_of_key(sample.key()) : ""; !why.empty())
      return end_failed(sample, outcome, KINORA_INVALID, fmt::format("{} (it came out of stage '{}')", why, last_));
    if (stores && ((made && urls_.contains(key)) || record_.has_stored(key))) return end_second(sample, outcome);
    const Lineage lineage = Lineage::of(outcome);
    const json line = line_of(sample, outcome, lineage);
    json files = json::object();
    if (stores) files = store_sample(context_.folder() / "data", sample);
    if (!made && line.contains("damaged") && outcome.end != KINORA_FAILED_AT)
      log_warn("{}: damaged: {}", key, line["damaged"].get<std::string>());
    {
      const std::lock_guard lock(mutex_);
      usage_.add(line["facts"]);
    }
    record_.end(line, lineage, files);
  }

  // [any-thread] The sample's key, with its video's folder if several videos have the same name: "scene-2
  // (b/scene.mp4)".
  std::string called(const Sample& sample) const {
    const std::string key(sample.key());
    auto url = urls_.find(key);
    if (url == urls_.end()) url = urls_.find(text_in(parse_facts(sample.text("json").value_or("")), "film"));
    if (url == urls_.end() || named_.at(with_folder(url->second, 0)) == 1) return key;
    return key + " (" + with_folder(url->second, 1) + ")";
  }

  // [any-thread] Usage of the samples that ended in this run.
  json usage() const {
    const std::lock_guard lock(mutex_);
    return usage_.sums();
  }

 private:
  // Of two kept samples with one key the first is stored and the second fails, as does a sample with an input's
  // key.
  void end_second(const Sample& sample, const kinora_outcome& outcome) {
    end_failed(sample, outcome, KINORA_DATA,
               fmt::format("a second sample called '{}' came out of stage '{}', and would overwrite the first; rename an input, "
                           "or fix the stage that names it", sample.key(), last_));
  }

  // Records as failed a sample that the engine reported as kept or filtered but that cannot be stored; the
  // run continues.
  void end_failed(const Sample& sample, const kinora_outcome& outcome, int32_t status, const std::string& reason) {
    kinora_outcome failed = outcome;
    failed.end = KINORA_FAILED_AT;
    failed.status = status;
    failed.reason = reason.c_str();
    failed.stage = last_.c_str();
    log_warn("{}: {}", valid_utf8(sample.key()), reason);
    const Lineage lineage = Lineage::of(outcome);
    record_.end(line_of(sample, failed, lineage), lineage, json::object());
  }

  json line_of(const Sample& sample, const kinora_outcome& outcome, const Lineage& lineage) const {
    return item_line(sample, outcome, lineage, outcome.made ? "" : urls_.at(std::string(sample.key())));
  }

  // The last parts of a url: the file name and this many folders.
  static std::string with_folder(const std::string& url, int folders) {
    size_t at = url.rfind('/');
    while (folders-- > 0 && at != std::string::npos && at > 0) at = url.rfind('/', at - 1);
    return at == std::string::npos ? url : url.substr(at + 1);
  }

  JobContext& context_;
  Record& record_;
  mutable std::mutex mutex_;
  Usage usage_;
  std::unordered_map<std::string, std::string> urls_;
  std::unordered_map<std::string, int64_t> named_;  // number of videos with each name
  std::string last_;  // names of the stages whose samples leave the pipeline
};

// Name of a stage with state over all samples (abi/stage.h), "" if none. Without the earlier samples it cannot do single
// videos.
std::string keeps_state(const JobContext& context) {
  for (const auto* use : context.spec().list("stages"))
    if (resources_of(context, *use).ordered == kKeepsState) return use->called();
  return "";
}

// Resumes from the folder's record if possible.
std::unique_ptr<Record> open_record(JobContext& context, std::vector<Input>& inputs) {
  const std::string& name = context.spec().name;
  const auto how = record_options(context.run(), context.spec(), retries(context.folder(), job_base(context.run(), context.spec())));
  auto record = std::make_unique<Record>(context.folder(), inputs, how);
  const bool goes_on = record->ended_before() + record->clips_before() > 0;
  if (const std::string stage = goes_on ? keeps_state(context) : ""; !stage.empty()) {
    log_warn("{}: stage '{}' keeps state over all samples (ordered = 1), so the job reruns from scratch: the results of {} inputs "
             "and {} clips are discarded", name, stage, record->ended_before(), record->clips_before());
    record.reset();
    remove_record(context.folder());
    return std::make_unique<Record>(context.folder(), inputs, how);
  }
  say_beginning(name, *record);
  return record;
}

}  // namespace

JobParts Curate::parts() {
  return {.slots = {kEngineSlot, {.name = "stages", .kind = "stage", .required = true, .list = true, .help = "in order"}},
          .reads = {"path"}};
}

void Curate::check(JobCheck& check) const {
  const auto& job = check.spec();
  const auto options = check.options<CurateOptions>();
  LeftOut left_out;
  const auto inputs = check.made("input", [&] {
    return glance_at_inputs(check.runtime().io(), job.paths, {options.recursive, options.all_files}, &left_out);
  });
  const auto is_there = [](const Input& input) { return input.error.empty(); };
  if (inputs && std::none_of(inputs->begin(), inputs->end(), is_there)) {
    const std::string others =
        left_out.no_films() > 0
            ? fmt::format(" but {} whose endings are not those of videos (all_files = true takes them)", left_out.no_films())
            : "";
    const std::string below = left_out.folders > 0 ? " (" + folders_below(left_out.folders) + ")" : "";
    const auto of_list = std::find_if(inputs->begin(), inputs->end(), [&](const Input& input) {
      return std::any_of(job.paths.begin(), job.paths.end(), [&](const std::string& path) {
        return is_listing(path) && input.error.find(path) != std::string::npos;
      });
    });
    check.problem("input", of_list == inputs->end()
                               ? fmt::format("input: there is no file in {}{}{}; name videos or a folder that contains some",
                                             fmt::join(job.paths, ", "), others, below)
                               : fmt::format("input: nothing that {} names can be used; the first problem: {}",
                                             fmt::join(job.paths, ", "), of_list->error));
  }
  if (check.ahead())
    for (const auto& columns : left_out.columns) log_warn("job '{}': {}", job.name, columns);
  for (const auto& path : job.paths)
    if (is_remote(path)) check.holds("input", [&] { or_throw(check.runtime().io().store(or_throw(parse_uri(path)).scheme)); });
  for (const auto* use : job.list("stages")) check.stage(*use);
  check_isolated(check, job.list("stages"));
  const Finding problem = [&](const ComponentUse& use, const std::string& message) { check.problem(use.at, message); };
  const Finding doubt = [&](const ComponentUse& use, const std::string& message) {
    if (check.ahead()) log_warn("{}", format(Diagnostic{use.at, "job '" + job.name + "': " + message}));
  };
  check_tensors(check.runtime().registry(), job.list("stages"), problem, doubt);
  check_order(check.runtime().registry(), job.list("stages"), problem, doubt);
}

// Identity of the videos that the job's inputs lead to now, with their metadata: size and modification time of every file, and
// the columns of lists and manifests; and of the videos to prune, so that a finished job runs again for them. Lists remote folders;
// throws kinora::Error if one cannot be listed.
std::string Curate::inputs_identity(const RunFile&, const JobSpec& job) const {
  Io* io = served_io();
  if (!io) return sha256(fmt::format("{}", fmt::join(job.paths, "\n")));
  const auto found = catching([&] {
    const auto prune = job.options.value("prune", std::vector<std::string>());
    const std::string listed = identity_of(listed_inputs(*io, job).inputs);
    return prune.empty() ? listed : sha256(fmt::format("{}\n{}", listed, fmt::join(prune, "\n")));
  });
  if (found) return *found;
  throw Error(found.failure().code, fmt::format("job '{}': its inputs cannot be listed, so the job does not run and the existing "
                                                "results are kept: {}",
                                                job.name, found.failure().message));
}

void Curate::run(JobContext& context) const {
  require(context);
  const auto options = context.options<CurateOptions>();
  PeakMemory memory;
  count_held_anew();
  fs::create_directories(context.folder() / "data");
  const Answers answers(context);
  fs::remove_all(work_folder(context));
  Listing listing = listed_inputs(context.runtime().io(), context.spec());
  std::vector<Input>& inputs = listing.inputs;
  count_left_out(context, listing.left_out);
  const auto open = open_record(context, inputs);
  say_left_out(context.spec().name, listing);
  Record& record = *open;
  Ingest ingest(inputs, record, {options.hash, options.duplicates == "drop"});
  Keeper keeper(context, record, inputs);
  PipelineJob job;
  job.stages = context.spec().list("stages");
  job.engine = context.spec().component("engine");
  job.memory = options.memory;
  job.threads = options.threads;
  job.total = record.inputs();
  job.made_before = record.clips_before();
  job.unit = "films";
  job.next = [&] { return ingest.next(); };
  const int64_t before = record.ended_before();
  job.ended_before_stages = [&, before] { return before + ingest.ended(); };
  job.usage = [&] { return keeper.usage(); };
  job.called = [&](const Sample& sample) { return keeper.called(sample); };
  job.ended_before = [&](const Sample& sample, const kinora_outcome& outcome) {
    return record.knows(std::string(sample.key()), outcome.made != 0);
  };
  job.ended = [&](const Sample& sample, const kinora_outcome& outcome) { keeper.end(sample, outcome), memory.look(); };
  const auto start = Clock::now();
  const PipelineResult ran = run_pipeline(context, job);
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  const Totals totals = write_results(context, inputs, record);
  fs::remove_all(work_folder(context));
  summarise(context, totals, inputs, record, seconds, memory.most());
  say_of_engine(context, ran.figures);
  say_how_it_went(context, totals);
  answers.set_aside();
}

void Curate::foresee(Runtime& runtime, const RunFile& run, const JobSpec& job, const fs::path& folder,
                     int64_t retries) const {
  foresee_curate(runtime, run, job, folder, retries);
}

}  // namespace kinora::core

using kinora::core::Curate;
KINORA_JOB(Curate)
KINORA_PLUGIN(Curate)
