#include "core/run/identity.hpp"

#include <algorithm>
#include <map>
#include <vector>

#include "core/base/digest.hpp"
#include "core/base/facts.hpp"
#include "core/run/description.hpp"
#include "core/run/inputs.hpp"
#include "core/run/job.hpp"
#include "core/run/job_folder.hpp"
#include "core/run/job_results.hpp"
#include "kinora/webdataset_files.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// How an identity is computed: as now, or as by the earlier version that wrote a job.json, for which options and
// parts that it lacks do not count if they have their defaults.
struct Manner {
  bool is_earlier = false;
  json known{};  // the job.json

  // The manner for another job of the run.
  Manner of(const RunFile& run, const JobSpec& job) const {
    if (!is_earlier) return {};
    return {true, object_in_file(run.out / job.name / "job.json")};
  }
};

bool is_there(const std::string& path) {
  std::error_code error;
  return !path.empty() && fs::exists(path, error);
}

// Calls f with each path among the values, and the name of its option.
template <class F>
void each_path(const ComponentSpec& spec, json& values, F f) {
  for (const auto& option : spec.options) {
    if (item_type(option.type) != OptionType::path || !values.contains(option.name)) continue;
    for (auto& one : values[option.name]) f(option.name, one);  // a lone path is one item
  }
}

// Replaces the paths that exist by the digests of what is there.
void replace_paths(Contents& contents, const ComponentSpec& spec, json& values) {
  each_path(spec, values, [&](const std::string&, json& path) {
    if (is_there(path)) path = contents.of(path.get<std::string>());
  });
}

void replace_paths(const Registry& registry, Contents& contents, const std::string& id, json& values) {
  if (const auto spec = registry.find(id)) replace_paths(contents, **spec, values);
}

// The same for the sources of a table of data.
void replace_in_data(const Registry& registry, Contents& contents, json& data) {
  for (auto& part : data["parts"]) replace_in_data(registry, contents, part);
  if (const auto at = data.find("source"); at != data.end()) {
    at->erase("version");
    replace_paths(registry, contents, at->at("id"), at->at("options"));
  }
}

// The digest of a URI such as "s3://...". Throws kinora::Error if the storage cannot be read.
std::string remote_digest(const std::string& uri) {
  Io* io = served_io();
  if (!io) throw Error(KINORA_ERROR_UNSUPPORTED, uri + ": this program cannot read from other storages");
  return sha256(or_throw(io->contents(uri)));
}

// The digest of a file, a folder, or the shards that a pattern in braces names.
std::string local_digest(Contents& contents, const std::string& path) {
  if (path.find('{') == path.npos || is_there(path)) return contents.of_data(path);
  std::string all;
  for (const auto& shard : expand_braces(path)) all += contents.of_data(shard) + "\n";
  return sha256(all);
}

// Removes options that `known` lacks and that have their defaults.
void drop_new(const ComponentSpec& spec, const json& known, json& options) {
  std::vector<Problem> ignored;
  const json defaults = Options::make(spec, json::object(), ignored).values();
  for (const auto& option : spec.options)
    if (!option.required && !known.contains(option.name) && options.contains(option.name) &&
        options[option.name] == defaults.value(option.name, json()))
      options.erase(option.name);
}

bool is_empty_but(const json& options, const ComponentSpec& spec) {
  json left = options;
  drop_new(spec, json::object(), left);
  return left.empty();
}

// The components of the slot in a job.json, in order.
std::vector<json> components_in(const json& known, const std::string& slot) {
  std::vector<json> out;
  for (const auto& c : known.value("components", json::array()))
    if (text_in(c, "slot") == slot) out.push_back(c);
  return out;
}

// Makes the components those of an earlier version.
void as_before(const Registry& registry, const JobSpec& job, const Manner& manner, json& identity) {
  drop_new(*job.kind, manner.known.value("options", json::object()), identity["options"]);
  std::map<std::string, size_t> seen;
  json components = json::array();
  for (auto& c : identity["components"]) {
    const std::string slot = c.at("slot");
    const auto before = components_in(manner.known, slot);
    const size_t place = seen[slot]++;
    const auto spec = registry.find(c.at("id").get<std::string>());
    if (place < before.size()) {
      if (spec) drop_new(**spec, before[place].value("options", json::object()), c["options"]);
      c["version"] = before[place].value("version", json());
    } else if (const auto at = std::ranges::find(job.kind->slots, slot, &Slot::name);
               at != job.kind->slots.end() && spec && before.empty() &&
               c.at("id") == at->kind + "/" + at->use && is_empty_but(c["options"], **spec)) {
      continue;
    }
    components.push_back(std::move(c));
  }
  identity["components"] = std::move(components);
}

// The identity of the job without its inputs.
json identity_of_work(JobIdentities& all, const JobSpec& job, const Manner& manner) {
  const Registry& registry = *all.run().registry;
  json identity = spec_json(job);
  identity.erase("name");
  identity.erase("how_only");
  for (const auto& option : job.kind->options)
    if (option.how_only) identity["options"].erase(option.name);
  for (const auto& slot : job.kind->slots)
    if (slot.how_only)
      std::erase_if(identity["components"].get_ref<json::array_t&>(),
                    [&](const json& c) { return c["slot"] == slot.name; });
  if (manner.is_earlier)
    as_before(registry, job, manner, identity);
  else
    job_type(all.run(), job).count_options(all.contents(), identity["options"]);
  identity["seed"] = job.draws() ? all.run().seed : 0;
  identity["inputs"] = json::array();
  replace_paths(all.contents(), *job.kind, identity["options"]);
  if (identity.contains("data")) replace_in_data(registry, all.contents(), identity["data"]);
  for (auto& c : identity["components"]) {
    c.erase("version");
    replace_paths(registry, all.contents(), c.at("id"), c["options"]);
  }
  return identity;
}

// Adds the files of a job that does not list its inputs itself.
void add_paths(Contents& contents, const JobSpec& job, json& identity) {
  identity["paths"] = json::array();
  for (const auto& path : job.paths) {
    if (is_uri(path)) identity["paths"].push_back(path);
    identity["inputs"].push_back(job.reads_folders() ? results_digest(path)
                                 : is_uri(path)      ? remote_digest(path)
                                                     : local_digest(contents, path));
  }
}

std::string base_of(JobIdentities& all, const JobSpec& job, const Manner& manner);
std::string digest_of(JobIdentities& all, const JobSpec& job, bool is_read, const Manner& manner);

// is_read: for a job that reads this one's results. If this one is finished, what it keeps counts, and not
// the inputs that lead to it.
// without: options that do not count.
std::string new_digest(JobIdentities& all, const JobSpec& job, bool is_read, const Manner& manner,
                       const std::vector<std::string>& without = {}) {
  const RunFile& run = all.run();
  json identity = identity_of_work(all, job, manner);
  for (const auto& option : without) identity["options"].erase(option);
  json& inputs = identity["inputs"];
  const JobType& type = job_type(run, job);
  if (type.lists_inputs()) {
    // The files behind them count: a pattern matches fewer while a disk is unavailable.
    identity.erase("paths");
    const fs::path folder = run.out / job.name;
    const std::string kept = is_read ? kept_by(folder, digest_of(all, job, false, manner)) : "";
    inputs.push_back(kept.empty() ? all.inputs_of(job)->identity() : kept);
    if (const int64_t n = is_read ? 0 : earlier_results(folder, base_of(all, job, manner)).retries; n > 0)
      inputs.push_back(n);
  } else {
    add_paths(all.contents(), job, identity);
  }
  const auto of = [&](const JobSpec& other, bool reads) {
    return digest_of(all, other, reads, manner.of(run, other));
  };
  for (size_t input : job.inputs) inputs.push_back(of(run.jobs[input], true));
  if (const std::string edits = type.edits_identity(run, job); !edits.empty()) inputs.push_back(edits);
  // The report covers every other job, whether its file names them or not.
  if (job.kind->reads.empty())
    for (const auto& other : run.jobs)
      if (&other != &job && !other.kind->reads.empty()) inputs.push_back(of(other, false));
  return sha256(identity.dump());
}

std::string digest_of(JobIdentities& all, const JobSpec& job, bool is_read, const Manner& manner) {
  if (manner.is_earlier) return new_digest(all, job, is_read, manner);
  return all.digest(job, is_read, [&] { return new_digest(all, job, is_read, manner); });
}

std::string new_base(JobIdentities& all, const JobSpec& job, const Manner& manner) {
  const JobType& type = job_type(all.run(), job);
  if (const auto grows_by = type.grows_by(); !grows_by.empty())
    return new_digest(all, job, false, manner, grows_by);
  if (!type.keeps_work()) return "";
  json identity = identity_of_work(all, job, manner);
  identity.erase("paths");
  return sha256(identity.dump());
}

std::string base_of(JobIdentities& all, const JobSpec& job, const Manner& manner) {
  if (manner.is_earlier) return new_base(all, job, manner);
  return all.base(job, [&] { return new_base(all, job, manner); });
}

// A job's digest and base, and those under which its folder has the same results.
struct Names {
  std::string digest, base, digest_there, base_there;
  bool is_adopted() const { return digest != digest_there || base != base_there; }
};

Names names_in(JobIdentities& all, const JobSpec& job, const fs::path& folder) {
  Names out{digest_of(all, job, false, {}), base_of(all, job, {}), {}, {}};
  out.digest_there = out.digest, out.base_there = out.base;
  const json known = object_in_file(folder / "job.json");
  const std::string digest = text_in(known, "digest"), base = text_in(known, "base");
  if (known.empty() || digest == out.digest || (digest.empty() && base.empty())) return out;
  const Manner manner{true, known};
  const std::string base_then = base_of(all, job, manner);
  if (digest_of(all, job, false, manner) == digest) out.digest_there = digest;
  if (!base.empty() && base_then == base) out.base_there = base;
  return out;
}

// Digests of what the options of type path name, by "OPTION" and "SLOT.OPTION", and of the "input";
// job.json's member "contents".
json contents_json(JobIdentities& all, const JobSpec& job) {
  json out = json::object();
  const auto add = [&](const ComponentSpec& spec, json values, const std::string& before) {
    each_path(spec, values, [&](const std::string& option, const json& path) {
      if (is_there(path)) out[before + option].push_back(all.contents().of(path.get<std::string>()));
    });
  };
  json options = job.options;
  options.erase("pipeline");  // its parts are among the others
  add(*job.kind, options, "");
  std::map<std::string, int> seen;
  for (const auto& c : job.components)
    if (const auto spec = all.run().registry->find(c.id))
      add(**spec, c.options.values(), place_name(c.slot, seen) + ".");
  if (job_type(all.run(), job).lists_inputs()) {
    out["input"].push_back(all.inputs_of(job)->identity());
  } else if (!job.data) {
    json paths = json::object();
    add_paths(all.contents(), job, paths);
    if (!job.paths.empty()) out["input"] = paths["inputs"];
  }
  return out;
}

// The content of job.json. The titles of scores do not belong to the job's identity.
json described(JobIdentities& all, const JobSpec& job) {
  const RunFile& run = all.run();
  json out = spec_json(job);
  out["contents"] = contents_json(all, job);
  if (job.draws()) out["seed"] = run.seed;
  const JobType& type = job_type(run, job);
  if (const auto grows_by = type.grows_by(); !grows_by.empty()) out["grows_by"] = grows_by;
  if (!run.file.empty() && type.lists_inputs())
    out["file"] = fs::weakly_canonical(fs::absolute(run.file)).string();
  for (const auto& use : job.components)
    if (const auto of = run.registry->find(use.id))
      for (const auto& score : (*of)->scores)
        out["scores"][score.name] = {{"title", score.title}, {"unit", score.unit}};
  return out;
}

}  // namespace

JobIdentities::JobIdentities(const RunFile& run) : run_(run), contents_(kept_digests(run.out)) {}

std::shared_ptr<const JobInputs> JobIdentities::inputs_of(const JobSpec& job) {
  auto& inputs = inputs_[&job];
  if (!inputs) inputs = job_type(run_, job).list_inputs(run_, job);
  return inputs;
}

const std::string& JobIdentities::digest(const JobSpec& job, bool is_read,
                                         const std::function<std::string()>& make) {
  const std::pair key(&job, is_read);
  if (const auto at = digests_.find(key); at != digests_.end()) return at->second;
  return digests_[key] = make();
}

const std::string& JobIdentities::base(const JobSpec& job, const std::function<std::string()>& make) {
  if (const auto at = bases_.find(&job); at != bases_.end()) return at->second;
  return bases_[&job] = make();
}

JobIdentity JobIdentities::of(const JobSpec& job) {
  const Names names = names_in(*this, job, run_.out / job.name);
  return {names.digest_there, names.base_there, described(*this, job), inputs_of(job)};
}

std::string JobIdentities::digest_of_today(const JobSpec& job) { return digest_of(*this, job, false, {}); }

bool JobIdentities::is_finished(const JobSpec& job, std::string* why) {
  const fs::path folder = run_.out / job.name;
  const Names names = names_in(*this, job, folder);
  return finished(folder, names.digest, why) || finished(folder, names.digest_there, why);
}

void JobIdentities::adopt_results() {
  struct Adopted {
    fs::path folder;
    const JobSpec* job;
    Names names;
  };
  // All are found before any is written, since an earlier digest depends on the earlier ones of the jobs
  // before; today's on today's.
  std::vector<Adopted> found;
  for (const auto& job : run_.jobs) {
    std::vector<fs::path> places = lying_aside(run_.out / job.name);
    places.push_back(run_.out / job.name);
    for (const auto& folder : places) {
      std::error_code error;
      if (!fs::exists(folder / "job.json", error)) continue;
      const auto names = catching([&] { return names_in(*this, job, folder); });
      if (names && names->is_adopted()) found.push_back({folder, &job, *names});
    }
  }
  for (const auto& [folder, job, names] : found) {
    forget();  // a job that was renamed counts by what it keeps
    rename_results(folder, described(*this, *job), {names.digest_there, names.base_there},
                   {digest_of_today(*job), base_of(*this, *job, {})});
  }
  if (!found.empty()) forget();
}

json identity_of(const RunFile& run, const ComponentUse& use, Contents& contents) {
  json out{{"id", use.id}, {"results", use.results}, {"options", use.options.values()}};
  replace_paths(*run.registry, contents, use.id, out["options"]);
  return out;
}

}  // namespace kinora::core
