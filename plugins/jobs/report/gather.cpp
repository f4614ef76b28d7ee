// The data of the whole page: the run, and for each of its jobs what its kind leaves behind.
#include <algorithm>
#include <set>

#include "plugins/jobs/report/page.hpp"
#include "plugins/jobs/report/sections.hpp"
#include "plugins/jobs/report/totals.hpp"

namespace kinora::core::report {
namespace {

// Every option, including defaults: values from the command line appear here and not in the run file.
std::string options_text(const JobRecord& job) {
  json all{{"options", job.options}};
  for (const auto& c : job.components)
    all["components"].push_back({{"slot", c.slot}, {"use", c.id}, {"options", c.options}});
  return all.dump(2, ' ', false, json::error_handler_t::replace);
}

json job_data(Pictures& pictures, const JobRecord& job, const std::map<const JobRecord*, Curation>& curations) {
  json out{{"name", job.name},
           {"kind", job.kind},
           {"missing", job.missing},
           {"seconds", or_null(number_at(job.summary, "seconds"))},
           {"facts", facts_of(job.summary)},
           {"options", options_text(job)},
           {"components", json::array()}};
  for (const auto& c : job.components)
    out["components"].push_back({{"slot", c.slot}, {"id", c.id}, {"version", c.version}});
  if (job.kind == "train" || job.kind == "train-tokenizer")
    out["curves"] = curves_of(job);  // also of an unfinished job: they show its progress
  if (!job.done()) return out;
  if (job.kind == "curate") {
    out["films"] = films_of(pictures, job, curations.at(&job));
    out["outcomes"] = outcomes_of(job, curations.at(&job));
  }
  if (out.contains("curves")) out["ranks"] = ranks_of(job);
  if (job.kind == "train-tokenizer") out["pairs"] = pairs_of(pictures, job);
  if (job.kind == "generate") out["videos"] = videos_of(pictures, job);
  return out;
}

}  // namespace

json or_null(const std::optional<double>& value) { return value ? json(*value) : json(); }

json facts_of(const json& summary) {
  static const std::set<std::string> everywhere{"job",     "kind",     "status", "digest",
                                                "seconds", "finished", "ranks",  "transfers"};
  static const std::vector<std::string> first{"steps",  "loss",    "psnr",         "parameters",
                                              "shards", "samples", "latent_shape", "bytes"};
  json out = json::array();
  const auto add = [&](const std::string& name, const json& value) {
    if (value.is_primitive() || (value.is_array() && value.size() <= 8))
      out.push_back({{"name", name}, {"value", value}});
  };
  for (const auto& name : first)
    if (summary.contains(name)) add(name, summary[name]);
  for (const auto& [name, value] : summary.items())
    if (!everywhere.contains(name) && std::find(first.begin(), first.end(), name) == first.end())
      add(name, value);
  return out;
}

Gathered gather(const RunRecord& run, StillSource still) {
  Pictures pictures{std::move(still), {}};
  const auto curations = curations_of(run);
  const Totals totals = totals_of(run, curations);
  json out{{"title", run.title},
           {"version", run.version},
           {"file", run.file},
           {"toml", run.toml},
           {"seed", std::to_string(run.seed)},
           {"finished", totals.finished},
           {"figures", json::array()},
           {"jobs", json::array()}};
  for (const auto& f : figures_of(totals))
    out["figures"].push_back({{"name", f.name}, {"value", f.value}, {"more", f.more}});
  for (const auto& job : run.jobs) out["jobs"].push_back(job_data(pictures, job, curations));
  return {std::move(out), line_of(totals)};
}

}  // namespace kinora::core::report
