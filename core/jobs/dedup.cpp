#include "core/jobs/dedup.hpp"

#include <fstream>

#include "core/io/atomic_file.hpp"
#include "core/jobs/clip_files.hpp"
#include "core/jobs/pipeline.hpp"
#include "core/log.hpp"
#include "core/run/digest.hpp"
#include "core/run/isolation.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;
constexpr const char* kDecisions = "decisions.jsonl";

// Hash of mp4 where another clip has as many bytes: only then can they be equal.
std::map<std::string, std::string> contents(const std::map<std::string, ClipFields>& clips) {
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

// What the stage needs of a clip, and no media.
Sample light(JobContext& context, const std::string& key, const ClipFields& fields,
             const std::string& content) {
  Sample sample(key);
  for (const auto& [name, file] : fields)
    if (name == "json" || name.ends_with(".npy"))
      sample.set(name.c_str(), or_throw(context.runtime().io().read_all(file.string())));
  if (!content.empty()) sample.set("sha256", content);
  return sample;
}

// The stage keeps every clip back until the last has come, so the job's bound is its own, unless the file
// gives it one.
ComponentUse bounded(JobContext& context, int64_t memory) {
  ComponentUse use = *context.spec().component("dedup");
  json values = use.options.values();
  if (values.value("memory", json()) != 0) return use;
  values["memory"] = memory;
  use.options = or_throw(Options::make(*or_throw(context.runtime().registry().find(use.id)), values));
  return use;
}

json decision(const Sample& sample, const kinora_outcome& outcome) {
  json line{{"key", sample.key()}};
  line["end"] = outcome.end == KINORA_KEPT ? "kept" : outcome.end == KINORA_FILTERED ? "filtered" : "failed";
  if (outcome.end == KINORA_FAILED_AT) line["reason"] = outcome.reason ? outcome.reason : "";
  const json facts = json::parse(sample.text("json").value_or("{}"), nullptr, false);
  if (facts.is_object() && facts.contains("dedup")) line.update(facts["dedup"]);
  if (outcome.end != KINORA_FILTERED) return line;
  line["rule"] = outcome.reason ? outcome.reason : "";
  line["score"] = outcome.score;
  if (facts.is_object() && facts.contains("duplicate")) line["of"] = facts["duplicate"]["of"];
  return line;
}

}  // namespace

void check_dedup(JobCheck& check) {
  const ComponentUse* dedup = check.spec().component("dedup");
  check.stage(*dedup);
  check_isolated(check, {dedup});
}

void run_dedup(JobContext& context) {
  require(context, check_dedup);
  const auto options = context.options<DedupOptions>();
  const auto clips = clips_in(context.folder_of(context.need_upstream("curate")) / "data");
  const auto content = contents(clips);
  AtomicFile decisions = or_throw(AtomicFile::create(context.folder() / kDecisions));
  auto at = clips.begin();
  PipelineJob job;
  const ComponentUse dedup = bounded(context, options.memory);
  job.stages = {&dedup};
  job.engine = context.spec().component("engine");
  job.memory = options.memory;
  job.threads = options.threads;
  job.total = static_cast<int64_t>(clips.size());
  job.unit = "clips";
  job.next = [&]() -> std::optional<Sample> {
    if (at == clips.end()) return std::nullopt;
    const auto& [key, fields] = *at++;
    const auto hash = content.find(key);
    return light(context, key, fields, hash == content.end() ? "" : hash->second);
  };
  job.ended = [&](const Sample& sample, const kinora_outcome& outcome) {
    or_throw(decisions.write(decision(sample, outcome).dump(-1, ' ', false, json::error_handler_t::replace) +
                             "\n"));
  };
  const PipelineResult result = run_pipeline(context, job);
  or_throw(decisions.commit());
  if (result.inputs.sum() != static_cast<int64_t>(clips.size()))
    throw Error(KINORA_FAILED, "the engine lost a clip: " + std::to_string(clips.size()) + " went in, " +
                                   std::to_string(result.inputs.sum()) + " ended; report this as a defect");
  context.summary["inputs"] = result.inputs.sum();
  context.summary["clips"] = result.inputs.json();
  context.summary["rules"] = result.rules;
  log_info("{}: {} of {} clips stay, {} are copies, {} could not be compared", context.spec().name,
           result.inputs.kept, clips.size(), result.inputs.filtered, result.inputs.failed);
  if (result.inputs.failed > 0 && result.inputs.kept == 0)
    throw Error(KINORA_DATA, std::string("no clip could be compared; ") + kDecisions + " says why for each");
}

}  // namespace kinora::core
