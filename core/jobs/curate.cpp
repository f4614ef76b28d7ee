#include "core/jobs/curate.hpp"

#include <algorithm>
#include <set>

#include "core/io/atomic_file.hpp"
#include "core/jobs/copy_out.hpp"
#include "core/jobs/pipeline.hpp"
#include "core/log.hpp"
#include "core/run/stage_results.hpp"
#include "core/run/storages.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;

json parse_field(const Sample& sample, const char* name) {
  const auto text = sample.text(name);
  if (!text) return json();
  json value = json::parse(*text, nullptr, false);
  return value.is_discarded() ? json() : value;
}

const char* end_name(uint32_t end) {
  return end == KINORA_KEPT ? "kept" : end == KINORA_FILTERED ? "filtered" : "failed";
}

// The line of items.jsonl about one end.
json item_line(const Sample& sample, const kinora_outcome& outcome) {
  json line{{"key", sample.key()}, {"end", end_name(outcome.end)}, {"consumed", outcome.consumed != 0}};
  if (outcome.stage) line["stage"] = outcome.stage;
  if (outcome.reason) line["reason"] = outcome.reason;
  if (outcome.end == KINORA_FILTERED) line["score"] = outcome.score;
  line["facts"] = parse_field(sample, "json");
  if (const auto parent = line["facts"].is_object() ? line["facts"].value("film", "") : ""; !parent.empty())
    line["parent"] = parent;
  if (sample.text("shots.json")) line["shots"] = parse_field(sample, "shots.json");
  if (const auto damage = damage_of(sample); !damage.empty()) line["damaged"] = damage;
  if (const auto url = sample.text("url")) line["url"] = *url;
  if (const auto caption = sample.text("txt")) line["caption"] = *caption;
  return line;
}

// Fields that are facts about where a sample came from rather than part of it.
bool stored(std::string_view field) { return field != "url" && field != "shots.json"; }

// A kept sample as files KEY.FIELD; the field that the others describe is written last, so that it marks a
// whole sample.
void store(const fs::path& folder, const Sample& sample) {
  for (const auto& field : sample.fields())
    if (stored(field.name))
      or_throw(
          write_file_atomically(folder / (std::string(sample.key()) + "." + std::string(field.name)),
                                {reinterpret_cast<const char*>(field.bytes.data()), field.bytes.size()}));
}

// "f-0000" beside "f": what clip.transcode calls the first clip of f.
bool is_clip_of_another(const std::string& key, const std::set<std::string>& films) {
  const size_t digits = key.size() - 1 - std::min(key.size() - 1, key.find_last_not_of("0123456789"));
  if (digits < 4 || key[key.size() - digits - 1] != '-') return false;
  const std::string film = key.substr(0, key.size() - digits - 1);
  return films.count(film) || is_clip_of_another(film, films);
}

// A key an input: its name without the ending and without dots (WebDataset: what follows the first dot is the
// field), told apart by a number where two inputs have the same, and by "-film" from the clips of another.
std::vector<std::string> keys_of(const std::vector<std::string>& files) {
  std::vector<std::string> keys;
  std::set<std::string> used;
  for (const fs::path file : files) {
    std::string stem = file.stem().string();
    std::replace(stem.begin(), stem.end(), '.', '-');
    std::string key = stem;
    for (int n = 2; !used.insert(key).second; ++n) key = stem + "-" + std::to_string(n);
    keys.push_back(key);
  }
  const std::set<std::string> films = used;
  for (auto& key : keys)
    if (is_clip_of_another(key, films)) {
      const std::string base = key + "-film";
      used.erase(key);
      key = base;
      for (int n = 2; !used.insert(key).second; ++n) key = base + "-" + std::to_string(n);
    }
  return keys;
}

// Folders stand for the files directly in them.
std::vector<std::string> films(const std::vector<std::string>& paths, Io& io) {
  std::vector<std::string> out;
  for (const auto& path : paths) {
    if (is_uri(path)) {
      if (!path.ends_with('/')) out.push_back(path);
      if (!path.ends_with('/')) continue;
      for (const auto& entry : or_throw(io.list(path)))
        if (!entry.folder && entry.name.front() != '.') out.push_back(path + entry.name);
      continue;
    }
    if (!fs::is_directory(path)) {
      out.push_back(path);
      continue;
    }
    std::vector<std::string> inside;
    for (const auto& entry : fs::directory_iterator(path))
      if (entry.is_regular_file() && entry.path().filename().string().front() != '.')
        inside.push_back(entry.path().string());
    std::sort(inside.begin(), inside.end());
    out.insert(out.end(), inside.begin(), inside.end());
  }
  return out;
}

void summarise(JobContext& context, const PipelineResult& result, int64_t damaged) {
  context.summary["inputs"] = result.inputs.sum();
  context.summary.update(result.inputs.json());
  context.summary["damaged"] = damaged;  // inputs, among those that did not fail as well as those that did
  context.summary["clips"] = result.made.json();
  context.summary["rules"] = result.rules;
}

}  // namespace

void check_curate(JobCheck& check) {
  const auto& job = check.spec();
  const auto is_local = [](const std::string& path) { return !is_uri(path); };
  if (std::all_of(job.paths.begin(), job.paths.end(), is_local) && films(job.paths, check.runtime().io()).empty())
    check.problem("input", fmt::format("input: there is no file in {}; name films, or a folder that has them",
                                       fmt::join(job.paths, ", ")));
  for (const auto* use : job.list("stages")) check.stage(*use);
}

void check_shard(JobCheck& check) {
  check.stage(*check.spec().component("shard"));
  check_out(check, check.options<ShardOptions>().out);
}

void run_curate(JobContext& context) {
  require(context, check_curate);
  const auto options = context.options<CurateOptions>();
  const fs::path data = context.folder() / "data";
  fs::remove_all(data);  // an interrupted curation starts over
  fs::create_directories(data);
  AtomicFile items = or_throw(AtomicFile::create(context.folder() / "items.jsonl"));

  const auto inputs = films(context.spec().paths, context.runtime().io());
  const auto keys = keys_of(inputs);
  size_t at = 0;
  int64_t damaged = 0;
  std::set<std::string> kept;  // keys
  PipelineJob job;
  job.stages = context.spec().list("stages");
  job.engine = context.spec().component("engine");
  job.memory = options.memory;
  job.threads = options.threads;
  job.total = static_cast<int64_t>(inputs.size());
  job.unit = "films";
  job.next = [&]() -> std::optional<Sample> {
    if (at == inputs.size()) return std::nullopt;
    Sample film(keys[at]);
    film.set("url", inputs[at++]);
    return film;
  };
  job.ended = [&](const Sample& sample, const kinora_outcome& outcome) {
    if (outcome.end == KINORA_KEPT && !outcome.consumed) {
      if (!kept.insert(std::string(sample.key())).second)
        throw Error(KINORA_DATA, "two kept samples are called '" + std::string(sample.key()) +
                                     "', and the second would overwrite the first; rename an input, or mend "
                                     "the stage that names it");
      store(data, sample);
    }
    const json line = item_line(sample, outcome);
    if (!outcome.made && line.contains("damaged")) {
      ++damaged;
      if (outcome.end != KINORA_FAILED_AT)
        log_warn("{}: damaged: {}", sample.key(), line["damaged"].get<std::string>());
    }
    or_throw(items.write(line.dump(-1, ' ', false, json::error_handler_t::replace) + "\n"));
  };
  const PipelineResult result = run_pipeline(context, job);
  or_throw(items.commit());
  summarise(context, result, damaged);
  if (result.inputs.sum() != static_cast<int64_t>(inputs.size()))
    throw Error(KINORA_FAILED, "the engine lost an input: " + std::to_string(inputs.size()) + " went in, " +
                                   std::to_string(result.inputs.sum()) + " ended; report this as a defect");
  log_info("{}: {} of {} inputs failed; {} clips kept, {} filtered, {} failed; {} says why",
           context.spec().name, result.inputs.failed, inputs.size(), result.made.kept, result.made.filtered,
           result.made.failed, (context.folder() / "items.jsonl").string());
  if (fs::is_empty(context.folder() / "data"))
    log_warn("{}: nothing was kept; the jobs that read it will find no clip", context.spec().name);
  if (result.inputs.failed > 0 && result.inputs.failed == result.inputs.sum() && result.made.kept == 0)
    throw Error(KINORA_DATA, "none of the " + std::to_string(inputs.size()) +
                                 " inputs could be used; items.jsonl says why for each");
}

void run_shard(JobContext& context) {
  require(context, check_shard);
  const auto options = context.options<ShardOptions>();
  const fs::path source = context.folder_of(context.need_upstream("curate")) / "data";
  std::map<std::string, std::vector<fs::path>> samples;  // by key, in order
  for (const auto& entry : fs::directory_iterator(source)) {
    const std::string name = entry.path().filename().string();
    if (name.front() != '.') samples[name.substr(0, name.find('.'))].push_back(entry.path());
  }
  auto at = samples.begin();
  PipelineJob job;
  job.stages = {context.spec().component("shard")};
  job.engine = context.spec().component("engine");
  job.memory = options.memory;
  job.threads = options.threads;
  job.total = static_cast<int64_t>(samples.size());
  job.unit = "clips";
  job.next = [&]() -> std::optional<Sample> {
    if (at == samples.end()) return std::nullopt;
    Sample sample(at->first);
    std::sort(at->second.begin(), at->second.end());
    for (const auto& file : at->second)
      sample.set(file.filename().string().substr(at->first.size() + 1).c_str(),
                 or_throw(context.runtime().io().read_all(file.string())));
    ++at;
    return sample;
  };
  const PipelineResult result = run_pipeline(context, job);
  if (result.inputs.failed > 0)
    throw Error(KINORA_FAILED,
                std::to_string(result.inputs.failed) + " clips could not be packed; the log names them");
  int64_t shards = 0;
  uint64_t bytes = 0;
  for (const auto& entry : fs::directory_iterator(context.folder()))
    if (entry.path().extension() == ".tar") ++shards, bytes += entry.file_size();
  context.summary.update({{"samples", result.inputs.kept}, {"shards", shards}, {"bytes", bytes}});
  if (!options.out.empty()) context.summary["copied"] = copy_out(context, options.out);
}

}  // namespace kinora::core
