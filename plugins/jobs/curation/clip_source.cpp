#include "plugins/jobs/curation/clip_source.hpp"

#include "core/base/facts.hpp"
#include "core/run/job.hpp"
#include "core/run/job_check.hpp"
#include "core/run/job_results.hpp"
#include "kinora/error.hpp"
#include "plugins/jobs/curation/drops.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char *kCurated = "curated", *kCuratedSha256 = "curated_sha256";

bool decides(const std::string& kind) { return kind == "dedup" || kind == "select"; }

std::string kept_in_folder(const fs::path& curated) {
  return text_in(object_in_file(curated / "summary.json"), "kept_sha256");
}

// The clips of the finished curate, dedup or select job with this folder.
ClipSource of_folder(const fs::path& folder) {
  if (!decides(text_in(object_in_file(folder / "job.json"), "kind"))) return {folder, {}};
  const json summary = object_in_file(folder / "summary.json");
  const fs::path curated = (folder.parent_path() / text_in(summary, kCurated)).lexically_normal();
  if (const auto wrong = problem_of_results(curated, {"curate"}); !wrong.empty())
    throw Error(KINORA_ERROR_INVALID, "input: the clips of " + folder.string() + ": " + wrong);
  if (const auto then = text_in(summary, kCuratedSha256); !then.empty() && then != kept_in_folder(curated))
    throw Error(KINORA_ERROR_INVALID, "input: " + curated.string() + " has other clips now than those that " +
                                          folder.string() + " decided about; run the job '" +
                                          folder.filename().string() + "' again");
  return {curated, folder / kDecisionsFile};
}

}  // namespace

ClipSource clip_source(const RunFile& run, const JobSpec& job) {
  if (job.paths.size() + (job.inputs.empty() ? 0 : 1) > 1)
    throw Error(KINORA_ERROR_INVALID,
                "input: a folder of another run is the only input of a job; leave the others out");
  if (!job.paths.empty()) return of_folder(job.paths.front());
  ClipSource out;
  for (const size_t input : job.inputs) {
    const JobSpec& one = run.jobs[input];
    if (out.decisions.empty() && decides(one.kind->name)) out.decisions = run.out / one.name / kDecisionsFile;
    if (out.curated.empty())
      out.curated = one.kind->name == "curate" ? run.out / one.name : clip_source(run, one).curated;
  }
  if (out.curated.empty())
    throw Error(KINORA_ERROR_INVALID, "it needs a job of kind curate among its inputs, direct or indirect");
  return out;
}

void check_clip_source(JobCheck& check) {
  if (!check.spec().paths.empty()) check.holds("input", [&] { clip_source(check.run(), check.spec()); });
}

void note_curated(JobContext& context, const fs::path& curated) {
  context.summary[kCurated] = fs::relative(curated, context.run().out).string();
  if (const auto kept = kept_in_folder(curated); !kept.empty()) context.summary[kCuratedSha256] = kept;
}

}  // namespace kinora::core
