#include "core/jobs/curate.hpp"

#include <algorithm>
#include <chrono>
#include <mutex>

#include "core/curate/ingest.hpp"
#include "core/curate/item_line.hpp"
#include "core/curate/store.hpp"
#include "core/curate/usage.hpp"
#include "core/jobs/curate_results.hpp"
#include "core/jobs/pipeline.hpp"
#include "core/log.hpp"
#include "core/run/digest.hpp"
#include "core/run/identity.hpp"
#include "core/run/isolation.hpp"
#include "core/run/job_folder.hpp"
#include "core/run/stage_graph.hpp"
#include "core/run/tensor_flow.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

// Files that stages put beside the results while they work on a film (film.remux), and that go with it.
fs::path work_folder(const JobContext& context) { return context.folder() / "work"; }

// Stages keep there what has been paid for (plugins/stages/endpoint/kept_answers.hpp),
fs::path answers_folder(const JobContext& context) { return context.folder() / "answers"; }
// and there it lies when the job is done, for the job that starts over with other options.
fs::path old_answers_folder(const JobContext& context) { return context.folder() / ".answers"; }

void remove_work(const JobContext& context, const Sample& film) {
  const auto url = film.text("url");
  const std::string work = work_folder(context).string() + "/";
  std::error_code ignored;
  if (url && url->starts_with(work) && url->find("..") == std::string_view::npos) fs::remove(fs::path(*url), ignored);
}

// Made for the stages that may ask servers, and gone with its owner where none of them has kept anything.
class Answers {
 public:
  explicit Answers(const JobContext& context)
      : folder_(answers_folder(context)), old_(old_answers_folder(context)) {
    if (fs::exists(old_) && !fs::exists(folder_)) fs::rename(old_, folder_);
    fs::create_directories(folder_);
  }
  // Not of a run that failed, which goes on with them.
  void set_aside() const {
    fs::remove_all(old_);
    if (!fs::is_empty(folder_)) fs::rename(folder_, old_);
  }
  ~Answers() {
    std::error_code ignored;  // there are some
    fs::remove(folder_, ignored);
  }
  Answers(const Answers&) = delete;
  Answers& operator=(const Answers&) = delete;

 private:
  const fs::path folder_, old_;
};

// Those whose output no other takes.
std::vector<std::string> last_stages(const std::vector<const ComponentUse*>& stages) {
  const StageGraph graph = stage_graph(stages, [](const ComponentUse&, const std::string&) {});
  std::set<size_t> taken;
  for (const auto& from : graph.from) taken.insert(from.begin(), from.end());
  std::vector<std::string> out;
  for (size_t i = 0; i < stages.size(); ++i)
    if (!taken.contains(i)) out.push_back(stages[i]->called());
  return out;
}

// Stores what was kept and records every end.
class Keeper {
 public:
  Keeper(JobContext& context, Record& record, const std::vector<Input>& inputs) : context_(context), record_(record) {
    for (const auto& input : inputs) urls_.emplace(input.key, input.url);
    last_ = fmt::format("{}", fmt::join(last_stages(context.spec().list("stages")), "' or '"));
  }

  void end(const Sample& sample, const kinora_outcome& outcome) {
    const std::string key(sample.key());
    const bool made = outcome.made != 0;
    if (!made) remove_work(context_, sample);
    if (record_.knows(key, made)) return;
    if (outcome.end == KINORA_KEPT && !outcome.consumed && !claims(key)) return end_second(sample, outcome);
    json files = json::object();
    if (outcome.end == KINORA_KEPT && !outcome.consumed) files = store_sample(context_.folder() / "data", sample);
    const json line = line_of(sample, outcome);
    if (!made && line.contains("damaged") && outcome.end != KINORA_FAILED_AT)
      log_warn("{}: damaged: {}", key, line["damaged"].get<std::string>());
    {
      const std::lock_guard lock(mutex_);
      usage_.add(line["facts"]);
    }
    record_.end(line, outcome.made, files);
  }

  // [any-thread] Of what has ended in this run.
  json usage() const {
    const std::lock_guard lock(mutex_);
    return usage_.sums();
  }

 private:
  bool claims(const std::string& key) {
    try {
      record_.claim(key);
      return true;
    } catch (const Error&) {
      return false;
    }
  }

  // Of two kept samples of one key the first is stored, and the second costs itself.
  void end_second(const Sample& sample, const kinora_outcome& outcome) {
    const std::string reason = fmt::format(
        "a second sample called '{}' came out of stage '{}', and would overwrite the first; rename an input, or mend the stage "
        "that names it", sample.key(), last_);
    kinora_outcome failed = outcome;
    failed.end = KINORA_FAILED_AT;
    failed.status = KINORA_DATA;
    failed.reason = reason.c_str();
    failed.stage = last_.c_str();
    log_warn("{}: {}", sample.key(), reason);
    record_.end(line_of(sample, failed), outcome.made, json::object());
  }

  // A stage that failed after it had handed its input on is told as one more sample, of the input's own key.
  json line_of(const Sample& sample, const kinora_outcome& outcome) const {
    const std::string key(sample.key());
    const auto input = urls_.find(key);
    json line = item_line(sample, outcome, outcome.made ? "" : urls_.at(key));
    if (outcome.made && input != urls_.end() && !line.contains("parent")) line["parent"] = key;
    return line;
  }

  JobContext& context_;
  Record& record_;
  mutable std::mutex mutex_;
  Usage usage_;
  std::unordered_map<std::string, std::string> urls_;
  std::string last_;  // names of the stages that samples leave the pipeline from
};

// Whether every stage takes what one other gives, and no two take the same: then a clip has one end.
bool is_chain(const std::vector<const ComponentUse*>& stages) {
  const StageGraph graph = stage_graph(stages, [](const ComponentUse&, const std::string&) {});
  for (size_t i = 0; i < graph.order.size(); ++i) {
    const auto& from = graph.from[graph.order[i]];
    if (i == 0 ? !from.empty() : from != std::vector{graph.order[i - 1]}) return false;
  }
  return true;
}

}  // namespace

void check_curate(JobCheck& check) {
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
            ? fmt::format(" but {} that are no films by their endings (all_files = true takes them)", left_out.no_films())
            : "";
    const std::string below = left_out.folders > 0 ? " (" + folders_below(left_out.folders) + ")" : "";
    const auto of_list = std::find_if(inputs->begin(), inputs->end(), [&](const Input& input) {
      return std::any_of(job.paths.begin(), job.paths.end(), [&](const std::string& path) {
        return is_listing(path) && input.error.find(path) != std::string::npos;
      });
    });
    check.problem("input", of_list == inputs->end()
                               ? fmt::format("input: there is no file in {}{}{}; name films, or a folder that has them",
                                             fmt::join(job.paths, ", "), others, below)
                               : fmt::format("input: none of what {} names can be used, beginning with {}",
                                             fmt::join(job.paths, ", "), of_list->error));
  }
  for (const auto& path : job.paths)
    if (is_remote(path)) check.holds("input", [&] { or_throw(check.runtime().io().store(or_throw(parse_uri(path)).scheme)); });
  for (const auto* use : job.list("stages")) check.stage(*use);
  check_isolated(check, job.list("stages"));
  check_tensors(check.runtime().registry(), job.list("stages"),
                [&](const ComponentUse& use, const std::string& message) { check.problem(use.at, message); },
                [&](const ComponentUse& use, const std::string& message) {
                  log_warn("{}", format(Diagnostic{use.at, "job '" + job.name + "': " + message}));
                });
}

std::string curate_inputs_identity(const JobSpec& job) {
  Io* io = served_io();
  if (!io) return sha256(fmt::format("{}", fmt::join(job.paths, "\n")));
  const Look look{job.options.value("recursive", false), job.options.value("all_files", false)};
  const auto found = catching([&] { return identity_of(find_inputs(*io, job.paths, look)); });
  if (found) return *found;
  throw Error(found.failure().code, fmt::format("job '{}': its inputs cannot be listed, so nothing is done and what is "
                                                "there stays as it is: {}",
                                                job.name, found.failure().message));
}

void run_curate(JobContext& context) {
  require(context, check_curate);
  const auto options = context.options<CurateOptions>();
  fs::create_directories(context.folder() / "data");
  const Answers answers(context);
  fs::remove_all(work_folder(context));
  LeftOut left_out;
  const auto inputs = find_inputs(context.runtime().io(), context.spec().paths, {options.recursive, options.all_files},
                                  &left_out);
  say_left_out(context, left_out);
  const std::string base = job_base(context.run(), context.spec());
  Record record(context.folder(), inputs,
                {base, is_chain(context.spec().list("stages")), retries(context.folder(), base)});
  if (record.retried() > 0) log_info("{}: {} failures of before are tried again", context.spec().name, record.retried());
  if (record.ended_before() > 0 || record.clips_before() > 0)
    log_info("{}: going on: {} of {} inputs have ended, and {} clips", context.spec().name,
             record.ended_before(), inputs.size(), record.clips_before());
  Ingest ingest(inputs, record, {options.hash, options.duplicates == "drop"});
  Keeper keeper(context, record, inputs);
  PipelineJob job;
  job.stages = context.spec().list("stages");
  job.engine = context.spec().component("engine");
  job.memory = options.memory;
  job.threads = options.threads;
  job.total = static_cast<int64_t>(inputs.size());
  job.made_before = static_cast<int64_t>(record.clips_before());
  job.unit = "films";
  job.next = [&] { return ingest.next(); };
  const auto before = static_cast<int64_t>(record.ended_before());
  job.ended_before_stages = [&, before] { return before + ingest.ended(); };
  job.usage = [&] { return keeper.usage(); };
  job.ended = [&](const Sample& sample, const kinora_outcome& outcome) { keeper.end(sample, outcome); };
  const auto start = Clock::now();
  run_pipeline(context, job);
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  const Totals totals = write_results(context, inputs, record);
  record.settle();
  fs::remove_all(work_folder(context));
  summarise(context, totals, inputs, record, seconds);
  say_how_it_went(context, totals);
  answers.set_aside();
}

}  // namespace kinora::core
