#include "plugins/jobs/curate/curate_results.hpp"

#include <algorithm>
#include <set>

#include <fmt/ranges.h>

#include "core/base/digest.hpp"
#include "core/base/facts.hpp"
#include "core/base/log.hpp"
#include "core/base/quantity.hpp"
#include "core/io/atomic_file.hpp"
#include "core/io/fence.hpp"
#include "core/run/identity.hpp"
#include "core/run/job_folder.hpp"
#include "core/run/job_results.hpp"
#include "core/run/job_stages.hpp"
#include "host/workers/worker.hpp"
#include "plugins/jobs/curation/clip_files.hpp"
#include "plugins/jobs/curation/manifest.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;

// Not what is elsewhere.
void remove_work(const JobContext& context, std::string_view path) {
  const std::string work = work_folder(context).string() + "/";
  std::error_code ignored;
  if (path.starts_with(work) && path.size() > work.size() && path.find("..") == path.npos)
    fs::remove_all(fs::path(path), ignored);
}

// Null: the sample has all of its fields.
const char* stored_in(const kinora_outcome& outcome) {
  return KINORA_HAS(&outcome, files) ? outcome.folder : nullptr;
}

void move_stored(const fs::path& from, const fs::path& to, const std::string& name, int64_t size) {
  fs::create_directories((to / name).parent_path());
  or_throw(may_publish(to / name));
  std::error_code error;
  fs::rename(from / name, to / name, error);
  if (!error && is_stored(to, name, size)) return;
  throw Error(
      KINORA_ERROR_IO,
      fmt::format(
          "{}: a node has stored it, and it cannot be moved to {} ({}); see that this machine and the "
          "nodes have the same disk there, or set the engine's store = \"driver\", and run again",
          (from / name).string(), to.string(),
          error ? error.message() : fmt::format("expected {} bytes", size)));
}

// Names of the stages whose output no other stage reads: "cut' or 'resize".
std::string last_stages(const std::vector<const ComponentUse*>& stages) {
  const StageGraph graph = stage_graph(stages, [](const ComponentUse&, const std::string&) {});
  std::set<size_t> taken;
  for (const auto& from : graph.from) taken.insert(from.begin(), from.end());
  std::vector<std::string> out;
  for (size_t i = 0; i < stages.size(); ++i)
    if (!taken.contains(i)) out.push_back(stages[i]->called());
  return fmt::format("{}", fmt::join(out, "' or '"));
}

// The last parts of a url: the file name and this many folders.
std::string with_folder(const std::string& url, int folders) {
  size_t at = url.rfind('/');
  while (folders-- > 0 && at != std::string::npos && at > 0) at = url.rfind('/', at - 1);
  return at == std::string::npos ? url : url.substr(at + 1);
}

// One digest of everything the job has kept: what other jobs read of it.
class KeptDigest {
 public:
  void add(const json& line, const json& files) {
    if (files.empty()) return;
    json kept = line;
    kept.erase("url");  // the place of the video does not count
    const std::string text = json{kept, files}.dump(-1, ' ', false, json::error_handler_t::replace);
    hash_.add(text.data(), text.size());
  }
  std::string hex() { return hash_.hex(); }

 private:
  Sha256 hash_;
};

// The cause may be the environment (disk, network), so failed inputs are retried. If all failed, all their
// results are redone.
void require_any_use(JobContext& context, const Totals& totals) {
  const Counts &inputs = totals.inputs(), &clips = totals.clips();
  std::string none;
  const bool is_of_clips = clips.failed > 0;
  if (inputs.failed > 0 && inputs.failed == inputs.sum() && clips.kept == 0)
    none = fmt::format("none of the {} inputs could be used", inputs.sum());
  else if (clips.failed > 0 && clips.failed == clips.sum() && fs::is_empty(context.folder() / "data"))
    none = fmt::format("all {} clips failed", clips.failed);
  const bool did_all_fail = !none.empty();
  // Inputs that a stage consumed without cutting clips.
  const bool is_of_videos = clips.sum() == 0 && inputs.kept > 0;
  if (none.empty() && inputs.failed + clips.failed > 0 && clips.kept == 0 && !is_of_videos &&
      fs::is_empty(context.folder() / "data"))
    none = fmt::format("nothing was kept, and {} failed", clips.failed > 0
                                                              ? counted(clips.failed, "clip", "clips")
                                                              : counted(inputs.failed, "input", "inputs"));
  if (none.empty()) return;
  if (did_all_fail)
    remove_record(context.folder());
  else
    count_retry(context.folder(), context.identity().base);
  context.summary.update(
      {{"job", context.spec().name}, {"kind", "curate"}, {"status", "failed"}, {"error", none}});
  write_summary(context.folder(), context.summary);
  throw Error(KINORA_ERROR_DATA, none + "; items.jsonl has the reason for each; the first is: " +
                                     totals.first_failure(is_of_clips));
}

}  // namespace

fs::path work_folder(const JobContext& context) { return context.folder() / "work"; }

void clear_work(const JobContext& context) {
  std::error_code ignored;
  fs::remove_all(work_folder(context), ignored);
}

fs::path store_folder(const JobContext& context) { return work_folder(context) / "stored"; }

json take_stored(const fs::path& data, const fs::path& folder, const char* files) {
  const json names = json::parse(files);
  std::vector<std::string> moved;
  try {
    for (const auto& [name, size] : names.items()) {
      if (!is_inside(name))
        throw Error(KINORA_ERROR_DATA,
                    fmt::format("a node has stored a file '{}', outside its folder", name));
      moved.push_back(name);
      move_stored(folder, data, name, size.get<int64_t>());
    }
  } catch (...) {
    remove_stored(data, moved);
    throw;
  }
  return names;
}

OutcomeWriter::OutcomeWriter(JobContext& context, Record& record, const InputRows& inputs)
    : context_(context), record_(record), inputs_(inputs) {}

void OutcomeWriter::end(const Sample& sample, const kinora_outcome& outcome) {
  record(sample, outcome);
  if (const char* folder = stored_in(outcome)) remove_work(context_, folder);
}

void OutcomeWriter::record(const Sample& sample, const kinora_outcome& outcome) {
  const std::string key = valid_utf8(sample.key());  // as the record spells it
  const bool made = outcome.made != 0, stores = outcome.end == KINORA_OUTCOME_KEPT && !outcome.consumed;
  if (!made) remove_work(context_, sample.text("url").value_or(""));
  if (record_.knows(key, made)) return;
  if (const std::string why = stores && made ? problem_of_key(sample.key()) : ""; !why.empty())
    return end_failed(sample, outcome, KINORA_ERROR_INVALID,
                      fmt::format("{} (it came out of stage '{}')", why, last()));
  if (stores && ((made && inputs_.find(key)) || record_.has_stored(key))) return end_second(sample, outcome);
  const Lineage lineage = Lineage::of(outcome);
  const json line = line_of(sample, outcome, lineage);
  json files = json::object();
  const fs::path data = context_.folder() / "data";
  if (stores)
    files = stored_in(outcome) ? take_stored(data, stored_in(outcome), outcome.files)
                               : store_sample(data, sample);
  if (!made && line.contains("damaged") && outcome.end != KINORA_OUTCOME_FAILED)
    log_warn("{}: damaged: {}", key, line["damaged"].get<std::string>());
  {
    const std::lock_guard lock(mutex_);
    usage_.add(line["facts"]);
  }
  record_.end(line, lineage, files);
}

std::string OutcomeWriter::called(const Sample& sample) const {
  const std::string key(sample.key());
  auto at = inputs_.find(key);
  if (!at) at = inputs_.find(text_in(parse_facts(sample.text("json").value_or("")), "film"));
  if (!at) return key;
  const std::string url = inputs_[*at].url;
  return inputs_.is_only(with_folder(url, 0)) ? key : key + " (" + with_folder(url, 1) + ")";
}

std::string OutcomeWriter::last() const { return last_stages(context_.spec().list("stages")); }

json OutcomeWriter::usage() const {
  const std::lock_guard lock(mutex_);
  return usage_.sums();
}

// If two kept samples have one key, the first is stored and the second fails, as does a sample with an input's
// key.
void OutcomeWriter::end_second(const Sample& sample, const kinora_outcome& outcome) {
  end_failed(sample, outcome, KINORA_ERROR_DATA,
             fmt::format("a second sample called '{}' came out of stage '{}', and would overwrite the "
                         "first; rename an input, or fix the stage that names it",
                         sample.key(), last()));
}

// Records as failed a sample that the engine reported as kept or filtered but that cannot be stored; the run
// continues.
void OutcomeWriter::end_failed(const Sample& sample, const kinora_outcome& outcome, int32_t status,
                               const std::string& reason) {
  kinora_outcome failed = outcome;
  failed.end = KINORA_OUTCOME_FAILED;
  failed.status = status;
  failed.reason = reason.c_str();
  const std::string stage = last();
  failed.stage = stage.c_str();
  log_warn("{}: {}", valid_utf8(sample.key()), reason);
  const Lineage lineage = Lineage::of(outcome);
  record_.end(line_of(sample, failed, lineage), lineage, json::object());
}

json OutcomeWriter::line_of(const Sample& sample, const kinora_outcome& outcome,
                            const Lineage& lineage) const {
  const std::string key(sample.key());
  return item_line(sample, outcome, lineage, outcome.made ? "" : inputs_[inputs_.find(key).value()].url);
}

Totals write_results(JobContext& context, const InputRows& inputs, Record& record) {
  const fs::path& folder = context.folder();
  Totals totals;
  KeptDigest kept;
  std::set<std::string> columns;
  std::set<fs::path> folders;  // of kept files
  inputs.each([&](size_t, const Input& input) {
    for (const auto& [name, value] : input.user.items()) columns.insert(name);
  });
  AtomicFile items = or_throw(AtomicFile::create(folder / "items.jsonl"));
  ManifestWriter manifest(folder, {columns.begin(), columns.end()});
  record.each([&](const json& line, bool made, const json& files) {
    totals.add(line, made, files);
    kept.add(line, files);
    manifest.add(line, made);
    if (!files.empty()) folders.insert((folder / "data" / files.items().begin().key()).parent_path());
    or_throw(items.write(line.dump(-1, ' ', false, json::error_handler_t::replace) + "\n"));
  });
  // Until now, the next run would have made again what a power cut has taken.
  for (const auto& each : folders) or_throw(flush_folder(each));
  or_throw(items.commit());
  manifest.commit();
  context.summary["kept_sha256"] = kept.hex();
  return totals;
}

void summarise(JobContext& context, const Totals& totals, const InputRows& inputs, const Record& record,
               double seconds, int64_t memory) {
  json& summary = context.summary;
  summary.update(totals.summary());
  const uint64_t bytes = inputs.bytes();
  summary["bytes_in"] = bytes;
  summary["resumed"] = {{"inputs", record.ended_before()}, {"clips", record.clips_before()}};
  summary["peak_memory"] = {{"process", memory}, {"worker", most_held_by_a_worker()}};
  // Time of this run alone, without earlier runs.
  summary["pipeline_seconds"] = seconds;
  if (record.ended_before() == 0 && seconds > 0)
    summary["throughput"] = {{"film_seconds_per_second", summary["film_seconds"].get<double>() / seconds},
                             {"bytes_per_second", static_cast<double>(bytes) / seconds}};
}

void summarise_engine(JobContext& context, const json& figures) {
  const auto whole = [](const json& of, const char* name) {
    return static_cast<int64_t>(number_in(of, name));
  };
  if (!figures.is_object()) return;  // the engine reported nothing
  const json memory = figures.value("memory", json::object());
  for (const char* name : {"peak", "bound", "beside"})
    if (memory.contains(name)) context.summary["memory"][name] = whole(memory, name);
  const auto stages = figures.find("stages");
  if (stages == figures.end()) return;
  for (const json& stage : *stages)
    for (const char* name : {"errors_after", "without_result"})
      if (const int64_t count = whole(stage, name); count > 0)
        context.summary[name][text_in(stage, "name")] = count;
}

void log_outcome(JobContext& context, const Totals& totals) {
  const Counts &inputs = totals.inputs(), &clips = totals.clips();
  std::vector<std::string> rules;
  for (const auto& [rule, count] : totals.rules()) rules.push_back(fmt::format("{} {}", rule, count));
  const bool has_reasons = inputs.filtered + inputs.failed + clips.filtered + clips.failed > 0;
  const bool has_no_data = fs::is_empty(context.folder() / "data");
  // A job that keeps its inputs as they are, such as pictures, says nothing about clips.
  const std::string of_clips =
      clips.sum() > 0 || has_no_data
          ? fmt::format("; {} kept, {} filtered, {} failed", counted(clips.kept, "clip", "clips"),
                        clips.filtered, clips.failed)
          : "";
  log_info("{}: of {} {} kept, {} filtered, {} failed{}{}{}", context.spec().name,
           counted(inputs.sum(), "input", "inputs"), inputs.kept, inputs.filtered, inputs.failed, of_clips,
           rules.empty() ? "" : fmt::format(" ({})", fmt::join(rules, ", ")),
           has_reasons ? "; " + (context.folder() / "items.jsonl").string() + " has the reasons" : "");
  const json without_result = context.summary.value("without_result", json::object());
  for (const auto& [stage, count] : without_result.items())
    log_warn("{}: {} ended in stage '{}' without a result: it emitted, dropped and failed nothing for {}",
             context.spec().name, counted(count.get<int64_t>(), "input", "inputs"), stage,
             count == 1 ? "it" : "them");
  require_any_use(context, totals);
  if (inputs.failed + clips.failed > 0) log_warn("{}: {}", context.spec().name, totals.failures_text());
  if (has_no_data)
    log_warn("{}: nothing was kept; jobs that read it will find no clips", context.spec().name);
}

}  // namespace kinora::core
