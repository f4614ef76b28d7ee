#include "plugins/jobs/report/page.hpp"

#include <algorithm>
#include <set>

#include "core/base/digest.hpp"
#include "plugins/jobs/data/base64.hpp"
#include "plugins/jobs/funnel/funnel.hpp"
#include "plugins/jobs/report/left_out.hpp"
#include "plugins/jobs/report/numbers.hpp"
#include "plugins/jobs/report/page_files.hpp"
#include "plugins/jobs/report/pictures.hpp"
#include "plugins/jobs/report/record.hpp"

namespace kinora::core::report {
namespace {

// The run in figures. -1: the run has no job of this kind.
struct Totals {
  int64_t inputs = -1, inputs_filtered = 0, inputs_failed = 0, shots = -1, kept = -1, filtered = -1,
          failed = -1, shards = -1, tokenizer_steps = -1, steps = -1, videos = -1;
  double seconds = 0;
  std::string finished;  // when the last job ended
};

struct Figure {
  std::string name, value, more;  // "clips kept", "12", "2 filtered, 1 failed"
  bool is_elsewhere = false;      // the page has it in its funnel, or beside its title
};

void add(int64_t& sum, int64_t n) { sum = std::max<int64_t>(sum, 0) + n; }

std::string losses(int64_t filtered, int64_t failed) {
  std::string out = filtered > 0 ? count(filtered) + "\u00A0filtered" : "";
  if (failed > 0) out += (out.empty() ? "" : ", ") + count(failed) + "\u00A0failed";
  return out;
}

Totals totals_of(const RunRecord& run, const std::map<const JobRecord*, Curation>& curations) {
  Totals t;
  for (const auto& job : run.jobs) {
    t.seconds += number_at(job.summary, "seconds").value_or(0);
    t.finished = std::max(t.finished, text_at(job.summary, "finished"));
    if (job.kind == "curate") {
      const json& clips = object_at(job.summary, "clips");
      add(t.inputs, count_at(job.summary, "inputs"));
      t.inputs_filtered += count_at(job.summary, "filtered");
      t.inputs_failed += count_at(job.summary, "failed");
      add(t.kept, count_at(clips, "kept"));
      add(t.filtered, count_at(clips, "filtered"));
      add(t.failed, count_at(clips, "failed"));
      add(t.shots, 0);
      for (const auto& video : curations.at(&job).videos)
        add(t.shots, static_cast<int64_t>(video.shots.size()));
    }
    if (job.kind == "shard") add(t.shards, count_at(job.summary, "shards"));
    if (job.kind == "train-tokenizer") add(t.tokenizer_steps, count_at(job.summary, "steps"));
    if (job.kind == "train" || job.kind == "distill") add(t.steps, count_at(job.summary, "steps"));
    if (job.kind == "generate")
      add(t.videos, static_cast<int64_t>(files_in(job.folder / "videos", ".mp4").size()));
  }
  return t;
}

// The curations of all curate jobs.
std::map<const JobRecord*, Curation> curations_of(const RunRecord& run) {
  std::map<const JobRecord*, Curation> out;
  for (const auto& job : run.jobs)
    if (job.kind == "curate") out.emplace(&job, read_curation(job));
  return out;
}

std::vector<Figure> figures_of(const Totals& t) {
  std::vector<Figure> out;
  const auto figure = [&](int64_t n, const char* one, std::string more = {}) {
    if (n >= 0) out.push_back({std::string(one) + (n == 1 ? "" : "s"), count(n), std::move(more)});
  };
  figure(t.inputs, "source video", losses(t.inputs_filtered, t.inputs_failed));
  figure(t.shots, "shot");
  if (t.kept >= 0)
    out.push_back({t.kept == 1 ? "clip kept" : "clips kept", count(t.kept), losses(t.filtered, t.failed)});
  figure(t.shards, "shard");
  if (t.kept >= 0)
    for (auto& of_curation : out) of_curation.is_elsewhere = true;
  const std::string also = t.tokenizer_steps < 0 ? "" : "+ " + count(t.tokenizer_steps) + "\u00A0tokenizer";
  if (t.steps >= 0)
    figure(t.steps, "training step", also);
  else
    figure(t.tokenizer_steps, "tokenizer step");
  figure(t.videos, "video");
  out.push_back({"total time", duration(t.seconds), "", true});
  return out;
}

// The figures as one line of text.
std::string line_of(const Totals& t) {
  std::string out;
  for (const auto& f : figures_of(t))
    out +=
        (out.empty() ? "" : ", ") + f.value + "\u00A0" + f.name + (f.more.empty() ? "" : " (" + f.more + ")");
  return out;
}

// Every option, including defaults: values from the command line appear here and not in the run file.
std::string options_text(const JobRecord& job) {
  json all{{"options", job.options}};
  for (const auto& c : job.components)
    all["components"].push_back({{"slot", c.slot}, {"use", c.id}, {"options", c.options}});
  return all.dump(2, ' ', false, json::error_handler_t::replace);
}

// The clips of a curate job that a select or dedup job left out.
json left_out_of(Pictures& pictures, const RunRecord& run, const JobRecord& job, const LeftOut& left_out) {
  const auto clips = left_out.of_jobs.find(job.name);
  for (const auto* curate : run.of_kind("curate"))
    if (clips != left_out.of_jobs.end() && curate->name == text_at(job.summary, "curated"))
      return left_out_data(pictures, *curate, clips->second);
  return json::array();
}

json job_data(Pictures& pictures, const RunRecord& run, const JobRecord& job,
              const std::map<const JobRecord*, Curation>& curations, const LeftOut& left_out) {
  json out{{"name", job.name},
           {"kind", job.kind},
           {"missing", job.missing},
           {"seconds", or_null(number_at(job.summary, "seconds"))},
           {"facts", facts_of(job.summary)},
           {"options", options_text(job)},
           {"components", json::array()}};
  for (const auto& c : job.components)
    out["components"].push_back({{"slot", c.slot}, {"id", c.id}, {"version", c.version}});
  if (job.kind == "train" || job.kind == "distill" || job.kind == "train-tokenizer")
    out["curves"] = curves_of(job);  // also of an unfinished job: they show its progress
  if (!job.done()) return out;
  if (job.kind == "curate") {
    out["source_videos"] = source_videos_of(pictures, job, curations.at(&job), left_out.keys.at(job.name));
    out["outcomes"] = outcomes_of(job, curations.at(&job));
    out["scores"] = scores_of(run, job, curations.at(&job));
  }
  if (job.kind == "select") out["selection"] = selection_of(job);
  if (job.kind == "select" || job.kind == "dedup")
    out["left_out"] = left_out_of(pictures, run, job, left_out);
  if (out.contains("curves")) {
    out["ranks"] = ranks_of(job);
    out["rounding"] = rounding_of(job);
    out["rounding_step"] = or_null(number_at(job.summary, "rounding_step"));
    for (const char* key : {"loss", "validation_loss"}) out[key] = or_null(number_at(job.summary, key));
  }
  if (job.kind == "train-tokenizer") out["pairs"] = pairs_of(pictures, job);
  if (job.kind == "generate") out["videos"] = videos_of(pictures, job);
  return out;
}

}  // namespace

json or_null(const std::optional<double>& value) { return value ? json(*value) : json(); }

json facts_of(const json& summary) {
  static const std::set<std::string> everywhere{"job",           "kind",     "status", "digest",
                                                "seconds",       "finished", "ranks",  "rounding",
                                                "rounding_step", "transfers"};
  json out = json::array();
  for (const auto& [name, value] : summary.items())
    if (!everywhere.contains(name) && (value.is_primitive() || (value.is_array() && value.size() <= 8)))
      out.push_back({{"name", name}, {"value", value}});
  for (const std::string name : {"clips", "dropped", "left_out", "not_asked_for"})
    for (const auto& [by, n] : object_at(summary, name.c_str()).items())
      if (n.is_number()) out.push_back({{"name", name + " " + by}, {"value", n}});
  return out;
}

namespace {

std::vector<FunnelStep> funnel_of_run(const RunRecord& run) {
  std::vector<json> summaries;
  for (const auto& job : run.jobs) {
    if (!job.done()) continue;
    summaries.push_back(job.summary);
    summaries.back().update({{"job", job.name}, {"kind", job.kind}});
  }
  return funnel_of(summaries);
}

}  // namespace

Gathered gather(const RunRecord& run, StillSource still) {
  Pictures pictures{std::move(still), {}};
  const auto curations = curations_of(run);
  const Totals totals = totals_of(run, curations);
  LeftOut left_out = left_out_by(run);
  json out{{"title", run.title},
           {"version", run.version},
           {"file", run.file},
           {"toml", run.toml},
           {"seed", std::to_string(run.seed)},
           {"finished", totals.finished},
           {"seconds", totals.seconds},
           {"funnel", funnel_json(funnel_of_run(run))},
           {"wall", json::array()},
           {"figures", json::array()},
           {"jobs", json::array()}};
  for (const auto& f : figures_of(totals))
    if (!f.is_elsewhere) out["figures"].push_back({{"name", f.name}, {"value", f.value}, {"more", f.more}});
  for (const auto& [job, curation] : curations)
    for (json& preview : wall_of(pictures, *job, curation, left_out.keys[job->name]))
      out["wall"].push_back(std::move(preview));
  for (const auto& job : run.jobs) out["jobs"].push_back(job_data(pictures, run, job, curations, left_out));
  return {std::move(out), line_of(totals)};
}

namespace {

// The files with this ending as one text. Without lines that import: a page in one file has nothing to import
// from.
std::string joined(std::string_view ending) {
  std::string out;
  for (const PageFile& file : page_files()) {
    if (!file.path.ends_with(ending)) continue;
    for (std::string_view rest = file.content; !rest.empty();) {
      const std::string_view line = rest.substr(0, std::min(rest.find('\n'), rest.size() - 1) + 1);
      if (!line.starts_with("import ")) out += line;
      rest.remove_prefix(line.size());
    }
  }
  return out;
}

// The source expression by which a Content-Security-Policy allows exactly this text.
std::string source_hash(std::string_view text) {
  const std::string hex = sha256(text);
  std::string bytes;
  for (size_t i = 0; i < hex.size(); i += 2)
    bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  return "'sha256-" + base64(bytes) + "'";
}

}  // namespace

std::string script_safe(const json& data) {
  const std::string text = data.dump(-1, ' ', true, json::error_handler_t::replace);
  std::string out;
  out.reserve(text.size() + 64);
  for (const char c : text) c == '<' ? out += "\\u003c" : out += c;
  return out;
}

std::string make_page(const Gathered& gathered) {
  const std::string style = joined(".css"), script = joined(".js"), html = joined(".html");
  const std::map<std::string, std::string, std::less<>> values{
      {"style", style},        {"style-source", source_hash(style)},   {"script", script},
      {"line", gathered.line}, {"script-source", source_hash(script)}, {"data", script_safe(gathered.data)}};
  std::string out;
  for (size_t at = 0; at < html.size();) {
    const size_t from = std::min(html.find('@', at), html.size());
    out.append(html, at, from - at);
    if (from == html.size()) break;
    const size_t to = html.find('@', from + 1);
    out += values.at(html.substr(from + 1, to - from - 1));
    at = to + 1;
  }
  return out;
}

}  // namespace kinora::core::report
