#include "plugins/jobs/training/trial_job.hpp"

#include "core/torch/tensors/torch_guard.hpp"

namespace kinora::core {
namespace {

JobSpec spec_of(const Document& document, const Registry& registry) {
  std::vector<Diagnostic> problems;
  JobSpec job;
  job.name = "trial";
  job.kind = or_throw(registry.find("job/train"));
  job.options = or_throw(Options::make(*job.kind, json::object())).values();
  const auto add = [&](const Slot& slot, const std::string& pointer, const json& given) {
    auto use = read_component(document, registry, pointer, slot.kind, {}, problems, given);
    if (!use) return;
    use->slot = slot.name;
    job.components.push_back(std::move(*use));
  };
  for (const auto& slot : job.kind->slots) {
    const json given = document.root().value(slot.name, json());
    if (given.is_array()) {
      for (size_t i = 0; i < given.size(); ++i) add(slot, fmt::format("/{}/{}", slot.name, i), given[i]);
    } else if (!given.is_null()) {
      add(slot, "/" + slot.name, given);
    }
  }
  std::string all;
  for (const auto& p : problems) all += (all.empty() ? "" : "; ") + p.message;
  if (!all.empty()) throw Error(KINORA_INVALID, all);
  return job;
}

}  // namespace

TrialJob::TrialJob(Runtime& runtime, const std::string& lines) {
  run_.seed = 3;
  run_.jobs.push_back(spec_of(or_throw(Document::parse(lines, "trial")), runtime.registry()));
  std::string folder = (std::filesystem::temp_directory_path() / "kinora-trial-XXXXXX").string();
  if (!mkdtemp(folder.data()))
    raise(KINORA_IO, "{}: cannot be made; set TMPDIR to a folder that can be written to", folder);
  run_.out = folder;
  context_.emplace(runtime, run_, run_.jobs[0], false);
}

TrialJob::~TrialJob() {
  std::error_code ignored;
  std::filesystem::remove_all(run_.out, ignored);
}

}  // namespace kinora::core
