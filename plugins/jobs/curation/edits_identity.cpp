#include "plugins/jobs/curation/edits_identity.hpp"

#include "core/base/digest.hpp"

namespace kinora::core {
namespace {

const JobSpec* curate_of(const RunFile& run, const JobSpec& job) {
  for (size_t input : job.inputs) {
    const JobSpec& one = run.jobs[input];
    if (one.kind->name == "curate") return &one;
    if (const auto* above = curate_of(run, one)) return above;
  }
  return nullptr;
}

}  // namespace

std::string edits_identity(const RunFile& run, const JobSpec& job, const std::function<json(const Edited&)>& followed) {
  const JobSpec* curate = curate_of(run, job);
  if (!curate) return "";
  const auto edits = catching([&] { return read_edits(run.out / curate->name / kEditsFile); });
  if (!edits) return sha256(edits.failure().message);  // the job itself reports what is wrong
  EditHistory by_footage;  // under whatever key the footage has by then
  for (Edit edit : edits->all()) {
    if (!edit.of.empty()) edit.key += " " + edit.of.dump(-1, ' ', false, json::error_handler_t::replace);
    by_footage.add(std::move(edit));
  }
  json all = json::object();
  for (const auto& [key, edit] : by_footage.edited()) {
    if (json of_clip = followed(edit); !of_clip.is_null()) all[key] = std::move(of_clip);
  }
  return all.empty() ? "" : sha256(all.dump(-1, ' ', false, json::error_handler_t::replace));
}

}  // namespace kinora::core
