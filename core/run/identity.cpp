#include "core/run/identity.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include <fmt/format.h>

#include "core/base/digest.hpp"
#include "core/run/inputs.hpp"
#include "core/run/job.hpp"
#include "core/run/job_folder.hpp"
#include "kinora/webdataset_files.hpp"

namespace kinora::core {

json spec_json(const JobSpec& job) {
  json out{{"name", job.name},
           {"kind", job.kind->name},
           {"options", job.options},
           {"paths", job.paths},
           {"components", json::array()}};
  if (job.data) out["data"] = job.data->identity();
  for (const auto& c : job.components) {
    json one{{"slot", c.slot}, {"id", c.id}, {"version", c.version}, {"options", c.options.values()}};
    if (!c.name.empty()) one["name"] = c.name;
    if (c.from) one["from"] = *c.from;
    out["components"].push_back(std::move(one));
  }
  for (const auto& option : job.kind->options)
    if (option.how_only) out["how_only"].push_back(option.name);
  return out;
}

namespace {

namespace fs = std::filesystem;

// Adds files that options name; they count as inputs.
void add_files(const Options& options, json& inputs) {
  std::error_code error;
  for (const auto& path : options.paths())
    if (fs::exists(path, error)) inputs.push_back(stat_digest(path));
}

// The digest of a URI such as "s3://...". Throws kinora::Error if the storage cannot be read.
std::string remote_digest(const std::string& uri) {
  Io* io = served_io();
  if (!io) throw Error(KINORA_ERROR_UNSUPPORTED, uri + ": this program cannot read from other storages");
  return sha256(or_throw(io->contents(uri)));
}

// The digest of a file, a folder, or the shards that a pattern in braces names.
std::string local_digest(const std::string& path) {
  std::error_code error;
  if (path.find('{') == path.npos || fs::exists(path, error)) return stat_digest(path);
  std::string all;
  for (const auto& shard : expand_braces(path)) all += stat_digest(shard) + "\n";
  return sha256(all);
}

// The identity of the job without its inputs.
json identity_of_work(const RunFile& run, const JobSpec& job) {
  json identity = spec_json(job);
  identity.erase("name");
  identity.erase("how_only");
  for (const auto& option : job.kind->options)
    if (option.how_only) identity["options"].erase(option.name);
  for (const auto& slot : job.kind->slots)
    if (slot.how_only)
      std::erase_if(identity["components"].get_ref<json::array_t&>(),
                    [&](const json& c) { return c["slot"] == slot.name; });
  identity["seed"] = job.draws() ? run.seed : 0;
  json& inputs = identity["inputs"] = json::array();
  add_files(or_throw(Options::make(*job.kind, identity["options"])), inputs);
  for (const auto& c : job.components) add_files(c.options, inputs);
  return identity;
}

// Computed once per run: folders and buckets may be large.
const std::string& identity_of_inputs(const RunFile& run, const JobSpec& job) {
  if (job.paths_identity.empty()) job.paths_identity = job_type(run, job).inputs_identity(run, job);
  return job.paths_identity;
}

// is_read: for a job that reads this one's results. If this one is finished, what it keeps counts, and not
// the inputs that lead to it.
// without: options that do not count.
std::string digest_of(const RunFile& run, const JobSpec& job, bool is_read,
                      const std::vector<std::string>& without = {}) {
  json identity = identity_of_work(run, job);
  for (const auto& option : without) identity["options"].erase(option);
  json& inputs = identity["inputs"];
  const JobType& type = job_type(run, job);
  if (type.lists_inputs()) {
    // The files behind them count: a pattern matches fewer while a disk is unavailable.
    identity.erase("paths");
    const fs::path folder = run.out / job.name;
    const std::string kept = is_read ? kept_by(folder, digest_of(run, job, false)) : "";
    inputs.push_back(kept.empty() ? identity_of_inputs(run, job) : kept);
    if (const int64_t n = is_read ? 0 : retries(folder, job_base(run, job)); n > 0) inputs.push_back(n);
  } else {
    for (const auto& path : job.paths)
      inputs.push_back(job.reads_folders() ? results_digest(path)
                       : is_uri(path)      ? remote_digest(path)
                                           : local_digest(path));
  }
  for (size_t input : job.inputs) inputs.push_back(digest_of(run, run.jobs[input], true));
  if (const std::string edits = type.edits_identity(run, job); !edits.empty()) inputs.push_back(edits);
  // The report covers every other job, whether its file names them or not.
  if (job.kind->reads.empty())
    for (const auto& other : run.jobs)
      if (&other != &job && !other.kind->reads.empty()) inputs.push_back(digest_of(run, other, false));
  return sha256(identity.dump());
}

}  // namespace

std::string job_base(const RunFile& run, const JobSpec& job) {
  if (const auto grows_by = job_type(run, job).grows_by(); !grows_by.empty())
    return digest_of(run, job, false, grows_by);
  if (!job_type(run, job).keeps_work()) return "";
  json identity = identity_of_work(run, job);
  identity.erase("paths");
  return sha256(identity.dump());
}

std::string job_digest(const RunFile& run, const JobSpec& job) { return digest_of(run, job, false); }

namespace {

using Values = std::map<std::string, json>;

constexpr size_t kMost = 5;

// Values by their names in a run file: "steps", "model.layers", "model".
Values values_of(const json& spec, const std::set<std::string>& how_only) {
  Values out;
  const json options = spec.value("options", json::object()), none = json::array();
  for (const auto& [name, value] : options.items())
    if (!how_only.contains(name)) out[name] = value;
  for (const auto& path : spec.value("paths", none)) out["input " + path.get<std::string>()] = "given";
  if (spec.contains("data")) out["input"] = spec.at("data");
  std::map<std::string, int> seen;
  for (const auto& c : spec.value("components", none)) {
    const std::string slot = c.at("slot"), at = seen[slot]++ ? fmt::format("{} {}", slot, seen[slot]) : slot;
    out[at] = c.at("id").get<std::string>() + " " + c.at("version").get<std::string>();
    for (const auto& [name, value] : c.at("options").items()) out[at + "." + name] = value;
  }
  return out;
}

std::string shown(const Values& of, const std::string& name) {
  const auto it = of.find(name);
  const std::string text =
      it == of.end() ? "absent" : it->second.dump(-1, ' ', false, json::error_handler_t::replace);
  return text.size() <= 72 ? text : text.substr(0, 72) + "...";
}

// If the component itself differs, its options need not be listed.
bool is_told_by_component(const std::string& name, const std::set<std::string>& told) {
  const size_t dot = name.find('.');
  return dot != name.npos && told.contains(name.substr(0, dot));
}

}  // namespace

std::string difference(const json& first, const json& second, const char* values) {
  const auto how_only = second.value("how_only", std::set<std::string>());
  const Values a = values_of(first, how_only), b = values_of(second, how_only);
  std::set<std::string> names, told;
  for (const auto* of : {&a, &b})
    for (const auto& [name, value] : *of) names.insert(name);
  std::vector<std::string> out;
  for (const auto& name : names) {
    const auto x = a.find(name), y = b.find(name);
    if ((x != a.end() && y != b.end() && x->second == y->second) || is_told_by_component(name, told))
      continue;
    told.insert(name);
    out.push_back(name + " " + fmt::format(fmt::runtime(values), shown(a, name), shown(b, name)));
  }
  if (out.size() <= kMost) return fmt::format("{}", fmt::join(out, "; "));
  const size_t more = out.size() - kMost;
  out.resize(kMost);
  return fmt::format("{}; and {} more", fmt::join(out, "; "), more);
}

}  // namespace kinora::core
