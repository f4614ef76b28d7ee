// kind = "shard": packs clips of a curate job into WebDataset shards, following people's decisions in the
// studio.
#include <algorithm>

#include <fmt/ranges.h>

#include "core/base/facts.hpp"
#include "core/base/log.hpp"
#include "core/base/quantity.hpp"
#include "core/io/atomic_file.hpp"
#include "core/run/job_plugin.hpp"
#include "core/run/job_stages.hpp"
#include "host/stages/stage_check.hpp"
#include "plugins/jobs/curation/clip_files.hpp"
#include "plugins/jobs/curation/clip_source.hpp"
#include "plugins/jobs/curation/drops.hpp"
#include "plugins/jobs/curation/edits.hpp"
#include "plugins/jobs/curation/where.hpp"
#include "plugins/jobs/pipeline/pipeline.hpp"
#include "plugins/jobs/shard/copy_out.hpp"
#include "plugins/jobs/shard/trim.hpp"

namespace kinora::core {

struct ShardOptions {
  int64_t memory = int64_t{1} << 30;
  int64_t threads = 0;
  std::string where, layout = "flat", out;
  static void describe(Describe<ShardOptions>& d) {
    d.name("shard").help("Packs the clips of a curate, dedup or select job into WebDataset shards");
    d.option("memory", &ShardOptions::memory)
        .how_only()
        .bytes()
        .at_least(1 << 20)
        .help("most memory of the samples between stages");
    d.option("threads", &ShardOptions::threads)
        .how_only()
        .range(0, 4096)
        .help("number of worker threads, and of shards that are written at once; 0: one per core");
    d.option("where", &ShardOptions::where)
        .help("condition that clips satisfy, such as \"blur >= 20\" or \"set == 'train'\"; empty: all do");
    d.option("layout", &ShardOptions::layout)
        .choices({"flat", "cosmos"})
        .help("folder layout of the shards; cosmos: folders resolution_R/aspect_ratio_W_H/duration_D");
    d.option("out", &ShardOptions::out)
        .help(
            "URI of a folder that receives a copy of the shards, such as "
            "s3://bucket/shards");
  }
};

class Shard final : public JobType {
 public:
  using Options = ShardOptions;
  static JobParts parts();
  void run(JobContext&) const override;
  void check(JobCheck&) const override;
  std::string edits_identity(const RunFile&, const JobSpec&) const override;
  std::string result_line(const json& summary) const override;
};

namespace {

namespace fs = std::filesystem;

struct Clip {
  std::string key, folder;  // folder: of its shard; empty: the job's own
  ClipFields files;
};

using AddedFacts = std::map<std::string, json>;  // by key

// Its facts with those that a select job added, the tags that a person gave, and the length of what a person trimmed.
json facts_of(Io& io, const Clip& clip, const Edited& edit, const AddedFacts& added) {
  const auto file = clip.files.find("json");
  json facts = file == clip.files.end() ? json() : parse_facts(or_throw(io.read_all(file->second.string())));
  if (!facts.is_object()) facts = json::object();
  if (const auto more = added.find(clip.key); more != added.end()) facts.merge_patch(more->second);
  if (edit.tags) facts["tags"] = *edit.tags;
  return edit.trim ? trimmed_facts(std::move(facts), clip.key, *edit.trim) : facts;
}

// Sorts by folder, then by key, so that the writer has only one shard open at a time.
void sort_into_bins(Io& io, std::vector<Clip>& clips, const EditHistory& edits, const AddedFacts& added) {
  for (auto& clip : clips) {
    clip.folder = bin_of(facts_of(io, clip, edits.now(clip.key), added));
    if (clip.folder.empty()) clip.folder = "unknown";
  }
  std::stable_sort(clips.begin(), clips.end(),
                   [](const Clip& a, const Clip& b) { return a.folder < b.folder; });
}

// The part of a clip that a person has chosen, instead of its stored video and preview.
void trim(ClipTrimmer& trimmer, const ClipFields& stored, Sample& sample, json& facts, json& files) {
  const auto video = stored.find("mp4");
  if (video == stored.end())
    throw Error(
        KINORA_ERROR_DATA,
        fmt::format("{}: it is trimmed, and has no video KEY.mp4; undo that in the studio", sample.key()));
  for (const char* field : {"preview.webp", "preview.mp4"}) files.erase(field);
  trimmer.cut(sample, facts, video->second);
}

// The names and sizes of its files, which the writer reads, and the fields that a person or a select job changed.
Sample sample_of(Io& io, const Clip& clip, const EditHistory& edits, const AddedFacts& added,
                 ClipTrimmer& trimmer) {
  Sample sample(clip.key);
  json files = json::object();
  for (const auto& [field, file] : clip.files) files[field] = {file.string(), fs::file_size(file)};
  if (!clip.folder.empty()) sample.set("shard.folder", clip.folder);
  const Edited edit = edits.now(clip.key);
  if (edit.caption || edit.tags || edit.trim || added.contains(clip.key)) {
    json facts = facts_of(io, clip, edit, added);
    if (edit.caption) {
      facts["caption"] = {{"by", "user"}};
      if (!edit.author.empty()) facts["caption"]["author"] = edit.author;
      sample.set("txt", *edit.caption);
    }
    if (edit.trim && facts.contains("trimmed")) trim(trimmer, clip.files, sample, facts, files);
    sample.set("json", facts.dump(-1, ' ', false, json::error_handler_t::replace));
  }
  sample.set("shard.files", files.dump(-1, ' ', false, json::error_handler_t::replace));
  return sample;
}

// Adds the clips for which `where` does not hold. It says what the job is for, as "set == 'train'" does, so
// it applies to clips that a person accepted, too. Returns {"where", "clips": how many it added}; null without `where`.
json drop_by_condition(Io& io, const std::string& condition, const std::vector<Clip>& clips,
                       const AddedFacts& added, const EditHistory& edits,
                       std::map<std::string, Drop>& drops) {
  const Where where(condition);
  if (where.rules().empty()) return {};
  FactsSeen seen(where);
  int64_t came_in = 0, removed_here = 0;
  for (const auto& clip : clips) {
    if (drops.contains(clip.key)) continue;
    ++came_in;
    const json facts = facts_of(io, clip, edits.now(clip.key), added);
    seen.add(facts);
    if (const auto removed = where.removed_by(facts, clip.key)) {
      drops[clip.key] = {.rule = where.rules()[*removed]};
      ++removed_here;
    }
  }
  seen.require();
  if (came_in > 0 && removed_here == came_in)
    throw Error(KINORA_ERROR_INVALID,
                fmt::format("where = \"{}\" leaves none of {}; correct the condition or remove the job",
                            condition, counted(came_in, "clip", "clips")));
  return {{"where", condition}, {"clips", removed_here}};
}

// Removes clips that are left out and records them: one line each in dropped.jsonl, followed by `lines`.
// Returns counts by rule.
std::map<std::string, int64_t> leave_out(const fs::path& folder, std::vector<Clip>& clips,
                                         const std::map<std::string, Drop>& drops, std::string lines) {
  std::map<std::string, int64_t> rules;
  std::erase_if(clips, [&](const Clip& clip) {
    const auto drop = drops.find(clip.key);
    if (drop == drops.end()) return false;
    ++rules[drop->second.rule];
    json line{{"key", clip.key}, {"end", "filtered"}, {"rule", drop->second.rule}};
    if (!drop->second.reason.empty()) line["reason"] = drop->second.reason;
    if (!drop->second.of.empty()) line.update({{"of", drop->second.of}, {"score", drop->second.score}});
    lines += line.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
    return true;
  });
  if (!lines.empty()) or_throw(write_file_atomically(folder / "dropped.jsonl", lines));
  return rules;
}

// Reports edits without effect to their author: counted in `summary` as `count`, logged with their first
// keys. Returns lines of dropped.jsonl.
std::string say_unused(JobContext& context, const std::vector<std::pair<std::string, json>>& edits,
                       const char* count, const std::function<std::string(bool is_one)>& why) {
  constexpr size_t kShown = 3;
  context.summary[count] = edits.size();
  std::string lines, first;
  for (size_t i = 0; i < edits.size(); ++i) {
    const auto& [key, set] = edits[i];
    if (i < kShown) first += (i > 0 ? ", " : "") + key;
    lines += json{{"key", key}, {"end", "unused_edit"}, {"reason", count}, {"set", set}}.dump(
                 -1, ' ', false, json::error_handler_t::replace) +
             "\n";
  }
  if (!edits.empty())
    log_warn("{}: {} left out, since {}: {}{}; dropped.jsonl lists {}", context.spec().name,
             counted(static_cast<int64_t>(edits.size()), "edit is", "edits are"), why(edits.size() == 1),
             first, edits.size() > kShown ? ", ..." : "", edits.size() == 1 ? "it" : "them");
  return lines;
}

std::string unused_edits(JobContext& context, const EditHistory& edits, const std::vector<Clip>& clips,
                         const fs::path& curated) {
  std::vector<std::pair<std::string, json>> others, gone;
  for (const auto& edit : edits.of_others()) others.emplace_back(edit.key, json_of(edit.set));
  const auto before = [](const Clip& a, const Clip& b) { return a.key < b.key; };
  for (const auto& [key, edit] : edits.edited())
    if (!std::binary_search(clips.begin(), clips.end(), Clip{key, "", {}}, before))
      gone.emplace_back(key, json_of(edit));
  return say_unused(context, others, "edits_of_other_footage",
                    [](bool is_one) {
                      return is_one ? "its clip has other footage now" : "their clips have other footage now";
                    }) +
         say_unused(context, gone, "edits_of_clips_not_kept", [&](bool is_one) {
           return fmt::format("{} has not kept {}", curated.string(), is_one ? "its clip" : "their clips");
         });
}

// People reject a clip for its content as often as for its encoding, so copies that take its place are
// logged.
void say_replacements(JobContext& context, const std::vector<Clip>& clips,
                      const std::map<std::string, std::string>& of,
                      const std::map<std::string, Drop>& drops) {
  constexpr size_t kNamed = 3;
  size_t count = 0;
  std::string names;
  for (const auto& clip : clips) {
    const auto rejected = of.find(clip.key);
    if (rejected == of.end() || !drops.contains(rejected->second)) continue;
    if (count++ < kNamed) names += (count > 1 ? ", " : "") + clip.key + " (of " + rejected->second + ")";
  }
  context.summary["copies_of_rejected"] = count;
  if (count > 0)
    log_warn("{}: {} of a rejected clip {}: {}{}; reject {} too if you do not want what {}",
             context.spec().name, count == 1 ? "1 copy" : std::to_string(count) + " copies",
             count == 1 ? "takes its place" : "take its place", names, count > kNamed ? ", ..." : "",
             count == 1 ? "it" : "them", count == 1 ? "it shows" : "they show");
}

void count_shards(JobContext& context) {
  int64_t shards = 0;
  uint64_t bytes = 0;
  for (const auto& entry : fs::recursive_directory_iterator(context.folder()))
    if (entry.path().extension() == ".tar") ++shards, bytes += entry.file_size();
  context.summary.update({{"shards", shards}, {"bytes", bytes}});
}

}  // namespace

JobParts Shard::parts() {
  return {.slots = {kEngineSlot,
                    {.name = "shard",
                     .kind = "stage",
                     .use = "shard.webdataset",
                     .required = true,
                     .help = "the writer"}},
          .reads = {"curate", "dedup", "select", "folder"},
          .draws = false};
}

// "12 samples in 2 shards, of 15 clips from sets; 3 of them not asked for by where; 4 left out before (blur >= 20: 4);
// 2 trimmed"
std::string Shard::result_line(const json& summary) const {
  const auto number = [&](const char* name) { return summary.value(name, int64_t{0}); };
  const json& others = object_in(summary, "not_asked_for");
  const auto not_asked_for = static_cast<int64_t>(number_in(others, "clips"));
  const Where where(text_in(others, "where"));
  std::vector<std::string> rules;
  for (const auto& [rule, count] : object_in(summary, "rules").items())
    if (std::ranges::find(where.rules(), rule) == where.rules().end())
      rules.push_back(fmt::format("{}: {}", rule, count.get<int64_t>()));
  std::string out =
      counted(number("samples"), "sample", "samples") + " in " + counted(number("shards"), "shard", "shards");
  if (summary.contains("given"))
    out += fmt::format(", of {} from {}", counted(number("given"), "clip", "clips"),
                       text_in(summary, "given_by"));
  if (not_asked_for > 0)
    out += fmt::format("; {} not asked for by where", summary.contains("given")
                                                          ? fmt::format("{} of them", not_asked_for)
                                                          : counted(not_asked_for, "clip", "clips"));
  if (const int64_t before = number("filtered") - not_asked_for; before > 0)
    out += fmt::format("; {} left out before ({})", before, fmt::join(rules, ", "));
  if (number("trimmed") > 0) out += fmt::format("; {} trimmed", number("trimmed"));
  return out;
}

std::string Shard::edits_identity(const RunFile& run, const JobSpec& job) const {
  return core::edits_identity(run, job, [](const Edited& edit) { return json{json_of(edit), edit.author}; });
}

void Shard::check(JobCheck& check) const {
  check_stage(check, *check.spec().component("shard"));
  check_engine(check, {check.spec().component("shard")});
  const auto options = check.options<ShardOptions>();
  check_clip_source(check);
  check.holds("where", [&] { Where(options.where); });
  check_out(check, options.out);
}

namespace {

// Throws if no clip is left. Before anything is written, so that the shards from before stay.
void require_clips(const std::vector<Clip>& clips, const std::map<std::string, Drop>& drops) {
  std::map<std::string, int64_t> rules;
  for (const Clip& clip : clips) {
    const auto drop = drops.find(clip.key);
    if (drop == drops.end()) return;
    ++rules[drop->second.rule];
  }
  std::vector<std::string> why;
  for (const auto& [rule, count] : rules) why.push_back(fmt::format("{}: {}", rule, count));
  throw Error(
      KINORA_ERROR_DATA,
      fmt::format("no clip is left to pack, of {}{}; loosen what leaves them out, or look at the jobs before",
                  counted(static_cast<int64_t>(clips.size()), "clip", "clips"),
                  why.empty() ? "" : fmt::format(" ({})", fmt::join(why, ", "))));
}

}  // namespace

void Shard::run(JobContext& context) const {
  const auto options = context.options<ShardOptions>();
  if (!options.out.empty()) refuse_others(context, options.out);
  const auto [curated, decisions] = clip_source(context.run(), context.spec());
  context.summary["curated"] = fs::relative(curated, context.run().out).string();
  Io& io = context.runtime().io();
  const auto edits = read_edits(curated / kEditsFile, kept_in(curated));
  std::map<std::string, Drop> drops;
  std::map<std::string, std::string> replacements;
  AddedFacts added;
  std::vector<Clip> clips;
  for (auto& [key, files] : clips_in(curated / "data")) clips.push_back({key, "", std::move(files)});
  if (!decisions.empty()) {
    drops = drops_in(decisions);
    replacements = replacements_in(decisions);
    added = added_facts_in(decisions);
    context.summary["given"] =
        std::ranges::count_if(clips, [&](const Clip& clip) { return !drops.contains(clip.key); });
    context.summary["given_by"] = decisions.parent_path().filename().string();
  }
  apply_edits(edits, drops);
  if (json others = drop_by_condition(io, options.where, clips, added, edits, drops); !others.is_null())
    context.summary["not_asked_for"] = std::move(others);
  require_clips(clips, drops);
  const auto all = static_cast<int64_t>(clips.size());
  const auto rules = leave_out(context.folder(), clips, drops, unused_edits(context, edits, clips, curated));
  say_replacements(context, clips, replacements, drops);
  if (options.layout == "cosmos") sort_into_bins(io, clips, edits, added);
  context.summary["trimmed"] =
      std::ranges::count_if(clips, [&](const Clip& clip) { return edits.now(clip.key).trim.has_value(); });
  ClipTrimmer trimmer(context.runtime(), curated);
  auto at = clips.begin();
  PipelineJob job;
  job.stages = {context.spec().component("shard")};
  job.engine = context.spec().component("engine");
  job.memory = options.memory;
  job.threads = options.threads;
  job.total = static_cast<int64_t>(clips.size());
  job.unit = "clips";
  job.next = [&]() -> std::optional<Sample> {
    if (at == clips.end()) return std::nullopt;
    return sample_of(io, *at++, edits, added, trimmer);
  };
  const PipelineResult result = run_pipeline(context, job);
  if (result.inputs.failed > 0)
    throw Error(KINORA_ERROR_FAILED,
                std::to_string(result.inputs.failed) + " clips could not be packed; the log names them");
  const int64_t filtered = all - static_cast<int64_t>(clips.size());
  if (result.inputs.kept + filtered != all)
    throw Error(KINORA_ERROR_FAILED,
                fmt::format("the engine lost clips: of {} {} were left out and {} packed; please report "
                            "this as a bug",
                            all, filtered, result.inputs.kept));
  context.summary.update(
      {{"inputs", all}, {"samples", result.inputs.kept}, {"filtered", filtered}, {"rules", rules}});
  count_shards(context);
  if (!options.out.empty()) context.summary["copied"] = copy_out(context, options.out);
}

}  // namespace kinora::core

using kinora::core::Shard;
KINORA_JOB(Shard)
KINORA_PLUGIN(Shard)
