#include "core/run/identity.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "plugins/jobs/curate/curate.hpp"
#include "plugins/jobs/curation/edits_identity.hpp"
#include "core/base/digest.hpp"
#include "core/run/job_folder.hpp"
#include "core/run/storages.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;

// Options of jobs that change how the work is done and not what comes of it, as Slot::how_only says of
// components.
constexpr std::array<std::string_view, 20> kHowOnly{
    "checkpoint_every", "keep",        "keep_every",       "async_checkpoints",
    "shard_size",       "log_every",   "memory",           "threads",
    "tensorboard",      "peak_flops",  "validation_every", "validation_samples",
    "sample_every",     "samples",     "sample_steps",     "validation_sigmas",
    "device",           "cuda_graphs", "prefetch",
    "unseen"};

// A file that an option names is an input like any other.
void add_files(const Options& options, json& inputs) {
  std::error_code error;
  for (const auto& path : options.paths())
    if (fs::exists(path, error)) inputs.push_back(stat_digest(path));
}

// The same of "s3://..." and its like. Throws kinora::Error if the storage cannot say.
std::string remote_digest(const std::string& uri) {
  Io* io = served_io();
  if (!io) throw Error(KINORA_UNSUPPORTED, uri + ": this program reads no files of other storages");
  return sha256(or_throw(io->contents(uri)));
}

}  // namespace

bool decides(std::string_view option) {
  return std::find(kHowOnly.begin(), kHowOnly.end(), option) == kHowOnly.end();
}

json spec_json(const JobSpec& job) {
  json out{{"name", job.name},
           {"kind", job.kind->spec.name},
           {"options", job.options},
           {"paths", job.paths},
           {"components", json::array()}};
  for (const auto& c : job.components) {
    json one{{"slot", c.slot}, {"id", c.id}, {"version", c.version}, {"options", c.options.values()}};
    if (!c.name.empty()) one["name"] = c.name;
    if (c.from) one["from"] = *c.from;
    out["components"].push_back(std::move(one));
  }
  return out;
}

namespace {

// The job by itself: what it does, with what, and not to what.
json identity_of_work(const RunFile& run, const JobSpec& job) {
  json identity = spec_json(job);
  identity.erase("name");
  for (const auto name : kHowOnly) identity["options"].erase(std::string(name));
  for (const auto& slot : job.kind->slots)
    if (slot.how_only)
      std::erase_if(identity["components"].get_ref<json::array_t&>(),
                    [&](const json& c) { return c["slot"] == slot.name; });
  identity["seed"] = run.seed;
  json& inputs = identity["inputs"] = json::array();
  add_files(or_throw(Options::make(job.kind->spec, job.options)), inputs);
  for (const auto& c : job.components) add_files(c.options, inputs);
  return identity;
}

// What is looked at once a run: folders and buckets may be large.
const std::string& identity_of_films(const RunFile& run, const JobSpec& job) {
  if (job.paths_identity.empty()) job.paths_identity = curate_inputs_identity(run, job);
  return job.paths_identity;
}

}  // namespace

std::string job_base(const RunFile& run, const JobSpec& job) {
  if (job.kind->spec.name != "curate" && job.kind->spec.name != "embed-text") return "";
  json identity = identity_of_work(run, job);
  identity.erase("paths");
  return sha256(identity.dump());
}

namespace {

std::string digest_of(const RunFile& run, const JobSpec& job, bool is_read) {
  json identity = identity_of_work(run, job);
  json& inputs = identity["inputs"];
  if (job.kind->spec.name == "curate") {
    identity.erase("paths");  // films that they lead to are what counts: a pattern names fewer while a disk is not there
    inputs.push_back(identity_of_films(run, job));
    const fs::path folder = run.out / job.name;
    const std::string base = job_base(run, job);
    if (const int64_t n = is_read ? revision(folder, base) : retries(folder, base); n > 0) inputs.push_back(n);
  } else {
    for (const auto& path : job.paths) inputs.push_back(is_uri(path) ? remote_digest(path) : stat_digest(path));
  }
  for (size_t input : job.inputs) inputs.push_back(digest_of(run, run.jobs[input], true));
  if (const std::string edits = edits_identity(run, job); !edits.empty()) inputs.push_back(edits);
  // The report is about every other job, whether it names them or not.
  if (job.kind->reads.empty())
    for (const auto& other : run.jobs)
      if (&other != &job && !other.kind->reads.empty()) inputs.push_back(digest_of(run, other, false));
  return sha256(identity.dump());
}

}  // namespace

std::string job_digest(const RunFile& run, const JobSpec& job) { return digest_of(run, job, false); }

}  // namespace kinora::core
