#include "plugins/jobs/curate/curate_results.hpp"

#include <algorithm>
#include <set>

#include "core/base/quantity.hpp"
#include "core/base/facts.hpp"
#include "plugins/jobs/curation/manifest_writer.hpp"
#include "core/io/atomic_file.hpp"
#include "core/base/log.hpp"
#include "core/base/digest.hpp"
#include "core/run/identity.hpp"
#include "core/run/job_folder.hpp"
#include "core/workers/worker.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;

// One digest of everything the job has kept: what other jobs read of it.
class KeptDigest {
 public:
  void add(const json& line, const json& files) {
    if (files.empty()) return;
    const std::string text = json{line, files}.dump(-1, ' ', false, json::error_handler_t::replace);
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
  const bool is_of_films = clips.sum() == 0 && inputs.kept > 0;  // inputs that a stage consumed without cutting clips
  if (none.empty() && inputs.failed + clips.failed > 0 && clips.kept == 0 && !is_of_films &&
      fs::is_empty(context.folder() / "data"))
    none = fmt::format("nothing was kept, and {} failed",
                       clips.failed > 0 ? counted(clips.failed, "clip", "clips") : counted(inputs.failed, "input", "inputs"));
  if (none.empty()) return;
  if (did_all_fail)
    remove_record(context.folder());
  else
    count_retry(context.folder(), job_base(context.run(), context.spec()));
  context.summary.update({{"job", context.spec().name}, {"kind", "curate"}, {"status", "failed"}, {"error", none}});
  or_throw(write_file_atomically(context.folder() / "summary.json", context.summary.dump(2, ' ', false, json::error_handler_t::replace) + "\n"));
  throw Error(KINORA_DATA, none + "; items.jsonl has the reason for each; the first is: " + totals.first_failure(is_of_clips));
}

}  // namespace

Totals write_results(JobContext& context, const std::vector<Input>& inputs, Record& record) {
  const fs::path& folder = context.folder();
  Totals totals;
  KeptDigest kept;
  std::set<std::string> columns;
  for (const auto& input : inputs)
    for (const auto& [name, value] : input.user.items()) columns.insert(name);
  AtomicFile items = or_throw(AtomicFile::create(folder / "items.jsonl"));
  ManifestWriter manifest(folder, {columns.begin(), columns.end()});
  record.each([&](const json& line, bool made, const json& files) {
    totals.add(line, made, files);
    kept.add(line, files);
    manifest.add(line, made);
    or_throw(items.write(line.dump(-1, ' ', false, json::error_handler_t::replace) + "\n"));
  });
  or_throw(items.commit());
  manifest.commit();
  context.summary["kept_sha256"] = kept.hex();
  return totals;
}

void summarise(JobContext& context, const Totals& totals, const std::vector<Input>& inputs, const Record& record,
               double seconds, int64_t memory) {
  json& summary = context.summary;
  summary.update(totals.summary());
  uint64_t bytes = 0;
  for (const auto& input : inputs) bytes += input.size;
  summary["bytes_in"] = bytes;
  summary["resumed"] = {{"inputs", record.ended_before()}, {"clips", record.clips_before()}};
  summary["peak_memory"] = {{"process", memory}, {"worker", most_held_by_a_worker()}};
  // Time of this run alone, without earlier runs.
  summary["pipeline_seconds"] = seconds;
  if (record.ended_before() == 0 && seconds > 0)
    summary["throughput"] = {{"film_seconds_per_second", summary["film_seconds"].get<double>() / seconds},
                             {"bytes_per_second", static_cast<double>(bytes) / seconds}};
}

void say_of_engine(JobContext& context, const json& figures) {
  const auto whole = [](const json& of, const char* name) { return static_cast<int64_t>(number_in(of, name)); };
  const json& memory = object_in(figures, "memory");
  for (const char* name : {"peak", "bound", "beside"})
    if (memory.contains(name)) context.summary["memory"][name] = whole(memory, name);
  const auto stages = figures.find("stages");
  if (stages == figures.end()) return;
  for (const json& stage : *stages)
    if (const int64_t errors = whole(stage, "errors_after"); errors > 0)
      context.summary["errors_after"][text_in(stage, "name")] = errors;
}

void count_left_out(JobContext& context, const LeftOut& out) {
  context.summary["skipped"] = {
      {"hidden", out.hidden}, {"links", out.links}, {"folders", out.folders}, {"no_films", out.no_films()}, {"endings", out.endings}};
}

void say_how_it_went(JobContext& context, const Totals& totals) {
  const Counts &inputs = totals.inputs(), &clips = totals.clips();
  std::vector<std::string> rules;
  for (const auto& [rule, count] : totals.rules()) rules.push_back(fmt::format("{} {}", rule, count));
  log_info("{}: of {} {} kept, {} filtered, {} failed; {} kept, {} filtered, {} failed{}; {} has the reasons", context.spec().name,
           counted(inputs.sum(), "input", "inputs"), inputs.kept, inputs.filtered, inputs.failed,
           counted(clips.kept, "clip", "clips"), clips.filtered, clips.failed,
           rules.empty() ? "" : fmt::format(" ({})", fmt::join(rules, ", ")),
           (context.folder() / "items.jsonl").string());
  require_any_use(context, totals);
  if (inputs.failed + clips.failed > 0)
    log_warn("{}: failures are kept until you retry them: run the same command with --retry-failed", context.spec().name);
  if (fs::is_empty(context.folder() / "data"))
    log_warn("{}: nothing was kept; jobs that read it will find no clips", context.spec().name);
}

}  // namespace kinora::core
