// kind = "dedup": finds clips of a curate job, or of those that a select job has chosen, that are copies of
// others. Writes decisions.jsonl; moves and removes nothing. Each decision identifies its footage ("clip", as
// in subject_of), so that it is not applied to other footage that has the key later. Clips that people
// rejected in the studio are removed first, by rule studio.reject: they are compared with nothing, so a copy
// of one may be kept. Such a copy's decision has "instead_of", and shard jobs report it.
#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "core/base/digest.hpp"
#include "core/base/facts.hpp"
#include "core/base/log.hpp"
#include "core/base/quantity.hpp"
#include "core/base/regular_stream.hpp"
#include "core/base/suggest.hpp"
#include "core/io/atomic_file.hpp"
#include "core/run/job_plugin.hpp"
#include "core/run/job_stages.hpp"
#include "core/run/run_file.hpp"
#include "host/stages/stage_check.hpp"
#include "plugins/jobs/curation/clip_files.hpp"
#include "plugins/jobs/curation/clip_source.hpp"
#include "plugins/jobs/curation/drops.hpp"
#include "plugins/jobs/curation/edits.hpp"
#include "plugins/jobs/pipeline/pipeline.hpp"

namespace kinora::core {

struct DedupOptions {
  int64_t memory = int64_t{1} << 30;
  int64_t threads = 0;
  static void describe(Describe<DedupOptions>& d) {
    d.name("dedup").help(
        "Finds clips that are copies of other clips; a shard job that reads this job leaves them out");
    d.option("memory", &DedupOptions::memory)
        .how_only()
        .bytes()
        .at_least(1 << 20)
        .help("most memory for the data of the clips, which are all compared at once");
    d.option("threads", &DedupOptions::threads)
        .how_only()
        .range(0, 4096)
        .help("number of worker threads; 0: one per core");
  }
};

class Dedup final : public JobType {
 public:
  using Options = DedupOptions;
  static JobParts parts();
  void run(JobContext&) const override;
  void check(JobCheck&) const override;
  std::string edits_identity(const RunFile&, const JobSpec&) const override;
};

namespace {

namespace fs = std::filesystem;
constexpr const char* kDecisions = "decisions.jsonl";
constexpr const char* kSignature = "signature";  // field that stage clip.signature makes

// The fields that the stages of a curate job add to its clips, as far as their names show: stages filter.* write
// scores of their own names, stages embed.* a field NAME.npy, by their option `name`.
class MadeByStages {
 public:
  explicit MadeByStages(const std::vector<const ComponentUse*>& stages) {
    for (const auto* use : stages) {
      const std::string name = use->id.substr(use->id.find('/') + 1), family = name.substr(0, name.find('.'));
      const std::string called = use->options.values().value("name", "");
      knows_all_ = knows_all_ && is_of_own_family(use->id);
      if (family == "embed" && !called.empty()) embeddings_.push_back(called);
      if (family == "filter") scores_.push_back(called.empty() ? name : "filter." + called);
    }
  }

  // "no stage makes the embedding 'clas', did you mean 'classic'?", or "" if one does, or if one of a family
  // that Kinora does not know might.
  std::string lacks_embedding(const std::string& name) const {
    const bool is_made = std::find(embeddings_.begin(), embeddings_.end(), name) != embeddings_.end();
    if (is_made || !knows_all_) return "";
    const std::string stage = name == "classic" ? "embed.classic" : "an embed stage of that name";
    return lacks("embedding", name, embeddings_) +
           (embeddings_.empty()
                ? "; put " + stage + ", with sample_fps of video.clips or clip.transcode, into the stages"
                : "");
  }

  // The same of a member of the facts' scores: "filter.blur", "filter.flow.p10".
  std::string lacks_score(const std::string& score) const {
    const bool is_made = std::any_of(scores_.begin(), scores_.end(), [&](const std::string& known) {
      return score == known || score.starts_with(known + ".");
    });
    return is_made || !knows_all_ ? "" : lacks("score", score, scores_);
  }

 private:
  static std::string lacks(const std::string& what, const std::string& name,
                           const std::vector<std::string>& there) {
    const std::string what_is =
        there.empty() ? "; there is none" : did_you_mean_or_list(name, there, "there are");
    return "no stage makes the " + what + " '" + name + "'" + what_is;
  }

  std::vector<std::string> embeddings_, scores_;
  bool knows_all_ = true;
};

// Hashes the mp4 of clips that have equal sizes: only those can be equal.
std::map<std::string, std::string> clip_contents(const std::map<std::string, ClipFields>& clips) {
  std::map<uintmax_t, std::vector<std::string>> by_size;
  for (const auto& [key, fields] : clips)
    if (const auto mp4 = fields.find("mp4"); mp4 != fields.end())
      by_size[fs::file_size(mp4->second)].push_back(key);
  std::map<std::string, std::string> out;
  for (const auto& [size, keys] : by_size)
    if (keys.size() > 1)
      for (const auto& key : keys) out[key] = sha256_of_file(clips.at(key).at("mp4"));
  return out;
}

// Keys of the videos that the curate job found damaged: cut off, or with pictures that cannot be decoded.
std::set<std::string> damaged_videos(const fs::path& curated) {
  std::set<std::string> out;
  auto in = regular_stream(curated / "items.jsonl");
  std::string text;
  while (in && std::getline(*in, text)) {
    if (text.find("\"damaged\"") == text.npos) continue;
    const json line = parse_facts(text);
    if (line.is_object() && line.contains("url") && !text_in(line, "damaged").empty())
      out.insert(text_in(line, "key"));
  }
  return out;
}

// The job knows these of the clips besides their fields.
struct CurateFindings {
  std::map<std::string, std::string> content;  // identities of their media, by key
  std::set<std::string> damaged;               // videos
};

// The fields of a clip that the stage needs, without media.
Sample light(JobContext& context, const std::string& key, const ClipFields& fields,
             const CurateFindings& findings) {
  Sample sample(key);
  for (const auto& [name, file] : fields)
    if (name == "json" || name == kSignature || name.ends_with(".npy"))
      sample.set(name.c_str(), or_throw(context.runtime().io().read_all(file.string())));
  if (const auto content = findings.content.find(key); content != findings.content.end())
    sample.set("sha256", content->second);
  if (!findings.damaged.empty() &&
      findings.damaged.contains(text_in(parse_facts(sample.text("json").value_or("null")), "film")))
    sample.set("damaged", "1");
  if (const auto mp4 = fields.find("mp4"); mp4 != fields.end())
    sample.set("bytes", std::to_string(fs::file_size(mp4->second)));
  return sample;
}

// The stage holds every clip until the last has come, so it gets the job's memory bound, unless the run file
// sets one.
ComponentUse bounded(JobContext& context, int64_t memory) {
  ComponentUse use = *context.spec().component("dedup");
  json values = use.options.values();
  if (values.value("memory", json()) != 0) return use;
  values["memory"] = memory;
  use.options =
      or_throw(Options::make(*or_throw(context.runtime().registry().find("stage", use.id)), values));
  return use;
}

json decision(const Sample& sample, const kinora_outcome& outcome) {
  json line{{"key", sample.key()}};
  line["end"] = outcome.end == KINORA_OUTCOME_KEPT       ? "kept"
                : outcome.end == KINORA_OUTCOME_FILTERED ? "filtered"
                                                         : "failed";
  if (outcome.end == KINORA_OUTCOME_FAILED) line["reason"] = outcome.reason ? outcome.reason : "";
  const json facts = parse_facts(sample.text("json").value_or("{}"));
  line.update(object_in(facts, "dedup"));
  if (json clip = subject_of(facts); !clip.empty()) line["clip"] = std::move(clip);
  const json duplicate = object_in(facts, "duplicate");
  if (outcome.end == KINORA_OUTCOME_KEPT && !duplicate.empty()) line["duplicate"] = duplicate;
  if (outcome.end != KINORA_OUTCOME_FILTERED) return line;
  line["rule"] = outcome.reason ? outcome.reason : "";
  line["score"] = outcome.score;
  for (const char* what : {"of", "nearest", "motion"})
    if (duplicate.contains(what)) line[what] = duplicate[what];
  if (duplicate.contains("why")) line["reason"] = duplicate["why"];
  return line;
}

// Removes clips that people rejected before any rule applies, so nothing becomes a copy of such a clip.
// Returns the removed ones by key.
std::map<std::string, Drop> take_rejected(const fs::path& curated, std::map<std::string, ClipFields>& clips) {
  std::map<std::string, Drop> rejected;
  apply_edits(read_edits(curated / kEditsFile, kept_in(curated)), rejected);
  std::erase_if(rejected, [&](const auto& one) { return clips.erase(one.first) == 0; });
  return rejected;
}

// The decisions of the select job that this job reads.
struct Earlier {
  std::string lines;  // of decisions.jsonl, about the clips that it left out
  std::map<std::string, json> added;
};

// Removes the clips that the select job left out; it follows people's decisions.
Earlier take_left_out(const fs::path& decisions, std::map<std::string, ClipFields>& clips) {
  if (decisions.empty()) return {};
  Earlier out{"", added_facts_in(decisions)};
  each_decision(decisions,
                [&](const json&, const std::string& text, const std::string& key, const std::string& end) {
                  if (end != "kept" && clips.erase(key) > 0) out.lines += text + "\n";
                });
  return out;
}

// Leaves out the reason: later jobs depend on decisions, and a reason may change without a decision.
json rejection(const std::string& key, const Drop& drop) {
  return {{"key", key}, {"end", "filtered"}, {"rule", drop.rule}};
}

std::string text_of(const JobSpec& job, const char* option) {
  return job.component("dedup")->options.values().value(option, "");
}

using Ended = std::function<void(const Sample&, const kinora_outcome&)>;

// Says of how many clips the embedding alone decided whether they are copies, and the remedy.
void say_unsigned(const JobContext& context, const std::map<std::string, ClipFields>& clips) {
  if (context.spec().component("dedup")->id != "stage/dedup.semantic") return;
  const auto count = std::count_if(clips.begin(), clips.end(),
                                   [](const auto& clip) { return !clip.second.contains(kSignature); });
  if (count > 0)
    log_info(
        "{}: {} no signature, so the embedding alone decides whether {}; to compare their motion too, put "
        "clip.signature into the stages of the curate job",
        context.spec().name, counted(count, "clip has", "clips have"),
        count == 1 ? "it is a copy" : "they are copies");
}

// "9 of 12 clips kept, 2 copies, 1 rejected by people"; what there is none of is left out.
std::string ended_text(const Counts& compared, int64_t all, size_t rejected) {
  std::string out = fmt::format("{} of {} kept", compared.kept, counted(all, "clip", "clips"));
  if (compared.filtered > 0) out += ", " + counted(compared.filtered, "copy", "copies");
  if (rejected > 0) out += fmt::format(", {} rejected by people", rejected);
  if (compared.failed > 0) out += fmt::format(", {} could not be compared", compared.failed);
  return out;
}

// Copies that are longer than the clip that stands for them: what is shown in the rest of them is lost.
class LongerCopies {
 public:
  void add(const Sample& sample, const json& line) {
    const std::string key(sample.key());
    seconds_[key] = number_in(parse_facts(sample.text("json").value_or("null")), "duration_s");
    if (line.contains("rule") && line.contains("of")) of_[key] = text_in(line, "of");
  }
  // One warning about all of them, with the one that loses most.
  void warn(const std::string& job) const {
    constexpr double kNearlyEqual = 1.05;
    int64_t count = 0;
    double lost = 0, most = 0;
    const std::pair<const std::string, std::string>* worst = nullptr;
    for (const auto& copy : of_) {
      const auto own = seconds_.find(copy.first), kept = seconds_.find(copy.second);
      if (kept == seconds_.end() || own->second <= kNearlyEqual * kept->second) continue;
      ++count;
      lost += own->second - kept->second;
      if (own->second - kept->second > most) most = own->second - kept->second, worst = &copy;
    }
    if (worst != nullptr)
      log_warn(
          "{}: {} longer than the clip that stands for {}, by {:.1f} s in all; {} ({:.1f} s) is left out for "
          "{} ({:.1f} "
          "s); keep = \"longest\" keeps the longer ones",
          job, counted(count, "copy is", "copies are"), count == 1 ? "it" : "them", lost, worst->first,
          seconds_.at(worst->first), worst->second, seconds_.at(worst->second));
  }

 private:
  std::map<std::string, double> seconds_;
  std::map<std::string, std::string> of_;  // the clip that stands for a copy
};

// Compares the clips of `among` and reports the outcome of each.
PipelineResult compared(JobContext& context, const DedupOptions& options, const ComponentUse& dedup,
                        const std::map<std::string, ClipFields>& among, const CurateFindings& findings,
                        const Ended& ended) {
  auto at = among.begin();
  PipelineJob job;
  job.stages = {&dedup};
  job.engine = context.spec().component("engine");
  job.memory = options.memory;
  job.threads = options.threads;
  job.total = static_cast<int64_t>(among.size());
  job.unit = "clips";
  job.next = [&]() -> std::optional<Sample> {
    if (at == among.end()) return std::nullopt;
    const auto& [key, fields] = *at++;
    return light(context, key, fields, findings);
  };
  job.ended = ended;
  return run_pipeline(context, job);
}

}  // namespace

JobParts Dedup::parts() {
  return {.slots = {kEngineSlot,
                    {.name = "dedup",
                     .kind = "stage",
                     .use = "dedup.semantic",
                     .required = true,
                     .help = "stage that decides which clips are copies"}},
          .reads = {"curate", "select", "folder"},
          .draws = false};
}

std::string Dedup::edits_identity(const RunFile& run, const JobSpec& job) const {
  return core::edits_identity(run, job,
                              [](const Edited& edit) { return edit.keep == false ? json(false) : json(); });
}

// Checks that a stage of the curate job makes the fields that are compared and that decide.
void Dedup::check(JobCheck& check) const {
  const ComponentUse& use = *check.spec().component("dedup");
  check_stage(check, use);
  check_engine(check, {&use});
  check_clip_source(check);
  const auto* curate = check.upstream("curate");
  if (!curate || use.id != "stage/dedup.semantic") return;
  const MadeByStages made(curate->list("stages"));
  const auto say = [&](const std::string& wrong) {
    if (!wrong.empty()) check.problem(use.at, "dedup: " + wrong + " in job '" + curate->name + "'");
  };
  const std::string former = text_of(check.spec(), "name");
  if (use.options.values().value("semantic", true))
    say(made.lacks_embedding(former.empty() ? text_of(check.spec(), "embedding") : former));
  if (const auto score = text_of(check.spec(), "score");
      text_of(check.spec(), "keep") == "best" && !score.empty())
    say(made.lacks_score(score));
}

namespace {

void require_all(const Counts& ended, size_t clips) {
  if (ended.sum() != static_cast<int64_t>(clips))
    throw Error(KINORA_ERROR_FAILED, "the engine lost clips: " + std::to_string(clips) + " went in, " +
                                         std::to_string(ended.sum()) + " ended; please report this as a bug");
}

}  // namespace

void Dedup::run(JobContext& context) const {
  const auto options = context.options<DedupOptions>();
  const auto [curated, before] = clip_source(context.run(), context.spec());
  auto clips = clips_in(curated / "data");
  const Earlier earlier = take_left_out(before, clips);
  const auto all = static_cast<int64_t>(clips.size());
  const CurateFindings findings{clip_contents(clips), damaged_videos(curated)};
  const ComponentUse dedup = bounded(context, options.memory);
  say_unsigned(context, clips);
  const auto compare = [&](const std::map<std::string, ClipFields>& among, const Ended& ended) {
    return compared(context, options, dedup, among, findings, ended);
  };
  // Maps a clip to the rejected clip that it would be a copy of.
  std::map<std::string, std::string> copy_of;
  const auto everything = clips;
  const auto rejected = take_rejected(curated, clips);
  if (!rejected.empty())
    compare(everything, [&](const Sample& sample, const kinora_outcome& outcome) {
      const json line = decision(sample, outcome);
      if (const std::string of = text_in(line, "of"); rejected.contains(of))
        copy_of[std::string(sample.key())] = of;
    });
  AtomicFile decisions = or_throw(AtomicFile::create(context.folder() / kDecisionsFile));
  const auto write = [&](const json& line) {
    or_throw(decisions.write(line.dump(-1, ' ', false, json::error_handler_t::replace) + "\n"));
  };
  int64_t recorded = 0;
  LongerCopies longer;
  PipelineResult result = compare(clips, [&](const Sample& sample, const kinora_outcome& outcome) {
    json line = decision(sample, outcome);
    recorded += line.contains("duplicate");
    longer.add(sample, line);
    const auto of = copy_of.find(std::string(sample.key()));
    if (outcome.end == KINORA_OUTCOME_KEPT && of != copy_of.end()) line["instead_of"] = of->second;
    if (const auto added = earlier.added.find(std::string(sample.key())); added != earlier.added.end())
      line.insert(added->second.begin(), added->second.end());
    write(line);
  });
  for (const auto& [key, drop] : rejected) write(rejection(key, drop));
  or_throw(decisions.write(earlier.lines));
  or_throw(decisions.commit());
  require_all(result.inputs, clips.size());
  log_info("{}: {}", context.spec().name, ended_text(result.inputs, all, rejected.size()));
  longer.warn(context.spec().name);
  if (recorded > 0)
    log_info("{}: {} kept and recorded, since mode = \"score\"; {} has the originals", context.spec().name,
             counted(recorded, "copy is", "copies are"), kDecisionsFile);
  for (const auto& [key, drop] : rejected) ++result.inputs.filtered, ++result.rules[drop.rule];
  note_curated(context, curated);
  context.summary["inputs"] = result.inputs.sum();
  context.summary["clips"] = result.inputs.json();
  context.summary["rules"] = result.rules;
  context.summary["copies_kept"] = recorded;
  if (result.inputs.failed > 0 && result.inputs.kept == 0)
    throw Error(KINORA_ERROR_DATA,
                std::string("no clip could be compared; ") + kDecisionsFile + " has the reasons");
}

}  // namespace kinora::core

using kinora::core::Dedup;
KINORA_JOB(Dedup)
KINORA_PLUGIN(Dedup)
