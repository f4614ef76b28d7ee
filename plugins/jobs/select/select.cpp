// kind = "select": chooses clips of a curate job by their facts, without reading any media. Reads
// items.jsonl, and decisions.jsonl of the dedup or select job that is its input; writes decisions.jsonl as a
// dedup job does, so that the same jobs read it. People's decisions come first: rejected clips are removed,
// accepted ones are not.
#include <algorithm>
#include <cmath>
#include <set>

#include <fmt/ranges.h>

#include "core/base/cancel.hpp"
#include "core/base/facts.hpp"
#include "core/base/log.hpp"
#include "core/base/quantity.hpp"
#include "core/io/atomic_file.hpp"
#include "core/run/job_plugin.hpp"
#include "core/runtime/call.hpp"
#include "plugins/jobs/curation/clip_source.hpp"
#include "plugins/jobs/curation/drops.hpp"
#include "plugins/jobs/inference/paths_option.hpp"
#include "plugins/jobs/select/candidates.hpp"
#include "plugins/jobs/select/embeddings.hpp"
#include "plugins/jobs/select/sampling.hpp"

namespace kinora::core {

struct SelectOptions {
  std::string where, pick = "random", embedding = "classic", join_key = "key", sets_by = "film";
  int64_t count = 0, min = 0, memory = int64_t{1} << 30, threads = 0;
  std::vector<std::string> per, sets;
  std::vector<double> shares;
  std::vector<std::filesystem::path> join;
  static void describe(Describe<SelectOptions>& d) {
    d.name("select").help(
        "Chooses clips of a curate job by their facts; a shard job that reads it packs those");
    d.option("where", &SelectOptions::where)
        .help("condition that clips satisfy, such as \"blur >= 20 and duration_s > 2\"; empty: all do");
    d.option("join", &SelectOptions::join)
        .help("CSV and JSONL tables of your own, whose columns become facts user.COLUMN");
    d.option("join_key", &SelectOptions::join_key)
        .help(
            "column of the tables, and the clips' fact of that name, that say which row is about which clip");
    d.option("count", &SelectOptions::count)
        .at_least(0)
        .help("most clips, or most clips with each value of `per`; 0: all");
    d.option("per", &SelectOptions::per)
        .help("facts, such as a label or bin.aspect, for each of whose values `count` clips are chosen");
    d.option("pick", &SelectOptions::pick)
        .choices({"random", "different"})
        .help(
            "choice of the `count` clips: random ones by the run's seed, or those whose embeddings differ "
            "the most");
    d.option("embedding", &SelectOptions::embedding).help("name of the embedding for pick = \"different\"");
    d.option("min", &SelectOptions::min)
        .at_least(0)
        .help(
            "fewest clips: if fewer are left, the job fails and its results from before stay; 0: none may be "
            "left");
    d.option("sets", &SelectOptions::sets)
        .help("names of sets into which the chosen clips are split: the fact `set`");
    d.option("shares", &SelectOptions::shares).above(0).help("relative sizes of the sets; empty: equal");
    d.option("sets_by", &SelectOptions::sets_by)
        .help(
            "fact whose value decides a clip's set: film keeps the clips of a video together, key does not");
    d.option("memory", &SelectOptions::memory)
        .how_only()
        .bytes()
        .at_least(1 << 20)
        .help("most memory for the embeddings of the clips that are compared with each other");
    d.option("threads", &SelectOptions::threads)
        .how_only()
        .range(0, 4096)
        .help("number of threads that read facts; 0: one per core");
  }
  std::vector<std::string> tables() const {
    std::vector<std::string> out;
    for (const auto& path : join) out.push_back(path.string());
    return out;
  }
};

class Select final : public JobType {
 public:
  using Options = SelectOptions;
  static JobParts parts() { return {.reads = {"curate", "dedup", "select", "folder"}}; }
  void run(JobContext&) const override;
  void check(JobCheck&) const override;
  std::string edits_identity(const RunFile&, const JobSpec&) const override;
  bool replaces_at_once() const override { return true; }
  std::string result_line(const json& summary) const override;
};

namespace {

namespace fs = std::filesystem;

Choice choice_of(JobContext& context, const SelectOptions& options) {
  const ClipSource source = clip_source(context.run(), context.spec());
  return {.name = context.spec().name,
          .curated = source.curated,
          .decisions = source.decisions,
          .where = Where(options.where),
          .per = options.count > 0 ? options.per : std::vector<std::string>(),
          .sets_by = options.sets.empty() ? "" : options.sets_by,
          .join_key = options.join_key,
          .tables = read_tables(context.runtime().io(), options.tables(), options.join_key),
          .threads = static_cast<size_t>(options.threads)};
}

EmbeddingRows embeddings_of(JobContext& context, const SelectOptions& options,
                            const std::vector<Candidate>& clips, const std::vector<size_t>& places) {
  std::vector<std::string> keys;
  for (const size_t place : places) keys.push_back(clips[place].key);
  return read_embeddings(context.runtime().io(), clip_source(context.run(), context.spec()).curated / "data",
                         options.embedding, keys, static_cast<uint64_t>(options.memory));
}

// The places of the clips of one bin that are chosen: accepted ones, then others up to `count`. places: by key.
std::vector<size_t> chosen_of(JobContext& context, const SelectOptions& options,
                              const std::vector<Candidate>& clips, const std::vector<size_t>& places,
                              const std::string& bin) {
  const auto count = static_cast<size_t>(options.count);
  if (places.size() <= count) return places;
  std::vector<size_t> out, first, others;
  for (size_t i = 0; i < places.size(); ++i) {
    if (clips[places[i]].is_accepted)
      first.push_back(i), out.push_back(places[i]);
    else
      others.push_back(places[i]);
  }
  if (options.pick == "random") {
    std::vector<std::string> keys;
    for (const size_t place : others) keys.push_back(clips[place].key);
    for (const size_t i : random_places(keys, count - std::min(count, out.size()), context.run().seed))
      out.push_back(others[i]);
    return out;
  }
  EmbeddingRows rows = embeddings_of(context, options, clips, places);
  Progress progress(context.spec().name + (bin.empty() ? "" : ": " + bin), options.count, "clips");
  out.clear();
  for (const size_t i : farthest_places(rows.values, rows.size, count, first, [&](size_t done) {
         if (cancelled()) throw Error(KINORA_ERROR_CANCELLED, "cancelled");
         progress.update(static_cast<int64_t>(done));
       }))
    out.push_back(places[i]);
  return out;
}

// Removes the clips beyond `count` of each bin by this step. Returns the number of clips that stay, by bin.
std::map<std::string, int64_t> sample(JobContext& context, const SelectOptions& options, int step,
                                      std::vector<Candidate>& clips) {
  std::map<std::string, std::vector<size_t>> bins;
  for (size_t i = 0; i < clips.size(); ++i)
    if (clips[i].removed_by == kStays) bins[clips[i].bin].push_back(i);
  std::map<std::string, int64_t> out;
  for (auto& [bin, places] : bins) {
    std::sort(places.begin(), places.end(), [&](size_t a, size_t b) { return clips[a].key < clips[b].key; });
    const auto chosen = chosen_of(context, options, clips, places, bin);
    for (const size_t place : places) clips[place].removed_by = step;
    for (const size_t place : chosen) clips[place].removed_by = kStays;
    out[bin] = static_cast<int64_t>(chosen.size());
  }
  return out;
}

// The share of each set, of a sum of 1.
std::vector<double> asked_shares(const SelectOptions& options) {
  std::vector<double> shares = options.shares;
  if (shares.empty()) shares.assign(options.sets.size(), 1);
  double sum = 0;
  for (const double one : shares) sum += one;
  for (double& one : shares) one /= sum;
  return shares;
}

// The shares of the clips that stay. Clips of one share are always in one set.
std::set<double> shares_of(const std::vector<Candidate>& clips) {
  std::set<double> out;
  for (const auto& clip : clips)
    if (clip.removed_by == kStays) out.insert(clip.share);
  return out;
}

// Names the set of each clip: those of one share are in one set, and sets follow each other in [0, 1).
class Sets {
 public:
  Sets(const SelectOptions& options, const std::vector<Candidate>& clips)
      : names_(options.sets), asked_(asked_shares(options)) {
    if (names_.empty()) return;
    std::vector<bool> has_clips(names_.size());
    for (const auto& clip : clips)
      if (clip.removed_by == kStays) has_clips[set_at(asked_, clip.share)] = true;
    if (std::ranges::find(has_clips, false) != has_clips.end())
      moved_ = moved_shares(asked_, shares_of(clips));
  }
  const std::string& of(double share) const {
    const auto moved = moved_.find(share);
    return names_[moved == moved_.end() ? set_at(asked_, share) : moved->second];
  }

 private:
  const std::vector<std::string>& names_;
  const std::vector<double> asked_;
  std::map<double, size_t> moved_;
};

void write_decisions(const fs::path& file, const std::vector<Candidate>& clips,
                     const std::vector<std::string>& steps, const SelectOptions& options, json& summary) {
  const auto quoted = [](const std::string& text) {
    return json(text).dump(-1, ' ', false, json::error_handler_t::replace);
  };
  std::map<std::string, int64_t> sets;
  for (const auto& name : options.sets) sets[name] = 0;
  const Sets of_clips(options, clips);
  AtomicFile decisions = or_throw(AtomicFile::create(file));
  std::string text;
  for (const auto& clip : clips) {
    text += clip.line;
    if (clip.removed_by >= 0) {
      text += R"(,"end":"filtered","final":true,"rule":)" +
              quoted(steps[static_cast<size_t>(clip.removed_by)]) + "}";
    } else if (clip.removed_by == kStays) {
      text += R"(,"end":"kept")";
      if (!options.sets.empty()) {
        const std::string& set = of_clips.of(clip.share);
        ++sets[set];
        text += R"(,"set":)" + quoted(set);
      }
      text += "}";
    }
    text += "\n";
    if (text.size() > (size_t{1} << 20)) or_throw(decisions.write(std::exchange(text, {})));
  }
  or_throw(decisions.write(text));
  or_throw(decisions.commit());
  if (!sets.empty()) summary["sets"] = sets;
}

// Adds the clips that came in, that each step removed, and that went out.
void summarise_steps(json& summary, const std::vector<Candidate>& clips,
                     const std::vector<std::string>& steps) {
  std::vector<int64_t> removed(steps.size());
  int64_t came_in = 0, kept = 0;
  for (const auto& clip : clips) {
    came_in += clip.removed_by != kCameNotIn;
    kept += clip.removed_by == kStays;
    if (clip.removed_by >= 0) ++removed[static_cast<size_t>(clip.removed_by)];
  }
  std::map<std::string, int64_t> rules;
  json all = json::array();
  int64_t left = came_in;
  for (size_t i = 0; i < steps.size(); ++i) {
    if (i == 0 && removed[i] == 0) continue;
    all.push_back({{"rule", steps[i]}, {"in", left}, {"removed", removed[i]}});
    left -= removed[i];
    if (removed[i] > 0) rules[steps[i]] += removed[i];
  }
  summary.update({{"inputs", came_in},
                  {"clips", {{"kept", kept}, {"filtered", came_in - kept}, {"failed", 0}}},
                  {"left_out_before", static_cast<int64_t>(clips.size()) - came_in},
                  {"rules", rules},
                  {"steps", std::move(all)}});
}

// Throws if fewer clips are left than `min`.
void require_enough(const SelectOptions& options, const json& summary) {
  const auto kept = summary["clips"]["kept"].get<int64_t>();
  if (kept >= options.min) return;
  std::string steps;
  for (const json& step : summary["steps"])
    steps += fmt::format("; {} removed {} of {}", step["rule"].get<std::string>(),
                         step["removed"].get<int64_t>(), step["in"].get<int64_t>());
  throw Error(KINORA_ERROR_FAILED,
              fmt::format("{} left, fewer than min = {}: {} came in{}; loosen a condition or lower min",
                          counted(kept, "clip is", "clips are"), options.min,
                          counted(summary["inputs"].get<int64_t>(), "clip", "clips"), steps));
}

// Each set's part of the clips. A set that is more than 10 of 100 off what was asked is named, the worst one.
void report_shares(const std::string& job, const SelectOptions& options, const std::vector<Candidate>& clips,
                   json& summary) {
  const auto kept = summary["clips"]["kept"].get<double>();
  if (options.sets.empty() || kept == 0) return;
  const std::vector<double> asked = asked_shares(options);
  size_t worst = 0;
  std::vector<double> got;
  for (const auto& set : options.sets) {
    summary["shares"][set] = got.emplace_back(summary["sets"][set].get<double>() / kept);
    if (std::abs(got.back() - asked[got.size() - 1]) > std::abs(got[worst] - asked[worst]))
      worst = got.size() - 1;
  }
  if (std::abs(got[worst] - asked[worst]) <= 0.1) return;
  const auto parts = static_cast<int64_t>(shares_of(clips).size());
  const std::string why = options.sets_by == "key" ? "there are only " + counted(parts, "clip", "clips")
                          : options.sets_by == "film"
                              ? fmt::format("the clips of a video are in one set, and there are {}",
                                            counted(parts, "video", "videos"))
                              : fmt::format("clips with one value of {} are in one set, and there are {}",
                                            options.sets_by, counted(parts, "value", "values"));
  log_info("{}: set '{}': asked {:.0f} %, got {:.0f} %: {}", job, options.sets[worst], 100 * asked[worst],
           100 * got[worst], why);
}

// Warns if a number among the facts `per` makes each clip a group of its own, so that `count` chooses nothing.
void warn_of_groups(const std::string& job, const SelectOptions& options,
                    const std::map<std::string, int64_t>& bins, const std::vector<Candidate>& clips) {
  const auto came =
      std::ranges::count_if(clips, [](const Candidate& clip) { return clip.removed_by == kStays; });
  const auto has_number = [](const auto& bin) {
    const std::string& parts = bin.first;
    for (size_t at = 0, end = 0; at < parts.size(); at = end + 2) {
      end = std::min(parts.find(", ", at), parts.size());
      if (json::parse(parts.substr(at, end - at), nullptr, false).is_number()) return true;
    }
    return false;
  };
  if (came > 1 && came == std::ssize(bins) && std::ranges::any_of(bins, has_number))
    log_warn(
        "{}: per = [\"{}\"] makes each of the {} clips a group of its own, so count = {} removes none; name "
        "facts with few values, such as bin.aspect",
        job, fmt::join(options.per, "\", \""), came, options.count);
}

// Which rows of the user's tables are about clips.
void report_joins(const std::string& job, const CandidateReader& reader, json& summary) {
  for (size_t i = 0; i < reader.tables().size(); ++i) {
    const UserTable& table = reader.tables()[i];
    const auto& [clips, rows] = reader.joined()[i];
    summary["joined"][table.name()] = {
        {"rows", table.size()}, {"rows_of_clips", rows.size()}, {"clips", clips}};
    log_info("{}: {}: {} of {} about clips; {} a row", job, table.name(), rows.size(),
             counted(static_cast<int64_t>(table.size()), "row is", "rows are"),
             counted(static_cast<int64_t>(clips), "clip has", "clips have"));
    if (const size_t others = table.size() - rows.size(); others > 0)
      log_info("{}: {}: {} of its {} rows {} about no clip that came in, the first is '{}'", job,
               table.name(), others, table.size(), others == 1 ? "is" : "are", table.first_key_without(rows));
  }
}

}  // namespace

// Tags matter only to options that name them as a fact.
std::string Select::edits_identity(const RunFile& run, const JobSpec& job) const {
  const json& o = job.options;
  const bool reads = Where(text_in(o, "where")).reads("tags") ||
                     std::ranges::count(o.at("per"), "tags") > 0 || o.at("sets_by") == "tags" ||
                     o.at("join_key") == "tags";
  return core::edits_identity(run, job, [&](const Edited& edit) {
    json out;
    if (edit.keep) out["keep"] = *edit.keep;
    if (edit.tags && reads) out["tags"] = *edit.tags;
    return out;
  });
}

void Select::check(JobCheck& check) const {
  const auto options = check.options<SelectOptions>();
  if (check.spec().inputs.size() > 1)
    check.problem("input", "input: a select job reads one job; give the others a select job of their own");
  check_clip_source(check);
  check.holds("where", [&] { Where(options.where); });
  for (const auto& table : options.tables()) {
    if (const auto wrong = problem_of_table(table); !wrong.empty())
      check.problem("join", "join: " + wrong);
    else
      check.finds("join", table);
  }
  if (options.count == 0 && (!options.per.empty() || options.pick != "random"))
    check.problem(options.per.empty() ? "pick" : "per",
                  "`per` and `pick` say which clips make up a count; set count");
  if (options.count > 0 && options.per.empty() && options.min > options.count)
    check.problem("min",
                  fmt::format("min = {} is more than count = {}; lower it", options.min, options.count));
  if (!options.shares.empty() && options.shares.size() != options.sets.size())
    check.problem("shares",
                  fmt::format("shares has {} numbers for {} sets; give one for each, or leave shares out",
                              options.shares.size(), options.sets.size()));
  double sum = 0;
  for (const double share : options.shares) sum += share;
  if (!std::isfinite(sum))
    check.problem("shares", "shares: the numbers and their sum must be finite; write such as [9, 1]");
  if (std::find(options.sets.begin(), options.sets.end(), "") != options.sets.end())
    check.problem("sets", "sets: a set has no name; name it");
  if (std::set<std::string>(options.sets.begin(), options.sets.end()).size() < options.sets.size())
    check.problem("sets", "sets: two sets have one name; rename one");
  if (!options.sets.empty() && options.sets_by.empty())
    check.problem("sets_by", "sets_by is empty; name a fact, or key to split clip by clip");
}

// "812 of 1000 clips chosen; left out by blur >= 20: 150, count: 38; by value: sea: 406, sky: 406; in sets:
// train: 731, val: 81"
std::string Select::result_line(const json& summary) const {
  const auto counts = [&](const char* name) {
    std::vector<std::string> out;
    for (const auto& [what, count] : object_in(summary, name).items())
      out.push_back(fmt::format("{}: {}", what, count.get<int64_t>()));
    return fmt::format("{}", fmt::join(out, ", "));
  };
  std::string out =
      fmt::format("{} of {} chosen", static_cast<int64_t>(number_in(object_in(summary, "clips"), "kept")),
                  counted(static_cast<int64_t>(number_in(summary, "inputs")), "clip", "clips"));
  if (const auto rules = counts("rules"); !rules.empty()) out += "; left out by " + rules;
  constexpr size_t kMostValues = 8;
  if (const size_t bins = object_in(summary, "bins").size(); bins > kMostValues)
    out += fmt::format("; of {} values, see summary.json", bins);
  else if (bins > 0)
    out += "; by value: " + counts("bins");
  if (const auto sets = counts("sets"); !sets.empty()) out += "; in sets: " + sets;
  return out;
}

void Select::run(JobContext& context) const {
  const auto options = context.options<SelectOptions>();
  CandidateReader reader(choice_of(context, options));
  std::vector<Candidate> clips = reader.read();
  std::vector<std::string> steps = reader.steps();
  json& summary = context.summary;
  if (options.count > 0) {
    steps.emplace_back("count");
    const auto bins = sample(context, options, static_cast<int>(steps.size()) - 1, clips);
    if (!options.per.empty())
      summary["bins"] = bins, warn_of_groups(context.spec().name, options, bins, clips);
  }
  summarise_steps(summary, clips, steps);
  require_enough(options, summary);
  write_decisions(context.folder() / kDecisionsFile, clips, steps, options, summary);
  note_curated(context, clip_source(context.run(), context.spec()).curated);
  const std::string& name = context.spec().name;
  report_joins(name, reader, summary);
  report_shares(name, options, clips, summary);
  if (summary["inputs"] > 0 && summary["clips"]["kept"] == 0)
    return log_warn("{}: no clip is left; jobs that read it will find none", name);
  for (const auto& set : options.sets)
    if (summary["inputs"] > 0 && summary["sets"][set] == 0)
      log_warn(
          "{}: no clip is in the set '{}'; add videos, or split clip by clip: sets_by = \"key\", which puts "
          "parts of one video into several sets",
          name, set);
}

}  // namespace kinora::core

using kinora::core::Select;
KINORA_JOB(Select)
KINORA_PLUGIN(Select)
