#include "plugins/jobs/training/divided_steps.hpp"

#include <algorithm>

#include "core/config/document.hpp"
#include "core/run/load_run.hpp"
#include "core/torch/tensors/torch_guard.hpp"
#include "plugins/jobs/training/buckets.hpp"
#include "plugins/jobs/training/checks.hpp"
#include "plugins/jobs/training/generating/rules.hpp"
#include "plugins/jobs/training/live/live_split.hpp"
#include "plugins/jobs/training/live/live_windows.hpp"

namespace kinora::core {
namespace {

RunFile read_run_file(Runtime& runtime, const json& request) {
  const std::string file = request.at("file");
  Document doc = or_throw(Document::read(file));
  std::vector<Diagnostic> problems;
  RunFile out = load_run(runtime, doc, file, request.at("sets"), {}, problems, request.at("job"));
  if (!problems.empty()) throw Error(KINORA_ERROR_INVALID, problems[0].message);
  return out;
}

// The sizes of the latents of a job's windows, slot by slot.
class SizesOfSlots {
 public:
  SizesOfSlots(const JobView& encode, double held_out)
      : options_(encode.options<EncodeOptions>()),
        part_(part_of(encode, "tokenizer", "tokenizer_weights", "train-tokenizer")),
        info_(on_meta(encode, *part_.use)->info()),
        windows_(encode, window_sizes(options_), options_.every),
        split_{held_out} {}

  LatentSize of(uint64_t slot) {
    const auto window = windows_.size(
        slot, [&](const std::string& key) { return split_.accepts(/*of_validation=*/false, key); });
    const auto& id = part_.use->id;
    return {latent_frames(info_, id, window.frames), latent_rows(info_, id, window.height),
            latent_columns(info_, id, window.width)};
  }

 private:
  EncodeOptions options_;
  Part part_;
  kinora_tokenizer_info info_;
  LiveWindows windows_;
  LiveSplit split_;
};

}  // namespace

json divided_steps(Runtime& runtime, const json& request) {
  const RunFile run = read_run_file(runtime, request);
  const std::string name = request.at("job");
  const auto job =
      std::find_if(run.jobs.begin(), run.jobs.end(), [&](const auto& j) { return j.name == name; });
  SizesOfSlots sizes_of(JobView(runtime, run, *job), request.at("held_out"));
  const size_t ranks = request.at("ranks"), accumulate = request.at("accumulate"),
               batch = request.at("batch");
  const uint64_t begin = request.at("first"), steps = request.at("steps");
  json out = json::array();
  for (uint64_t first = begin; first < begin + steps * batch; first += batch) {
    std::vector<LatentSize> sizes;
    for (uint64_t slot = first; slot < first + batch; ++slot) sizes.push_back(sizes_of.of(slot));
    const auto rows = divided(sizes, accumulate * ranks, request.at("buckets")).rows;
    std::vector<std::vector<uint64_t>> of_rank(ranks);
    for (size_t row = 0; row < rows.size(); ++row)
      for (const size_t i : rows[row]) of_rank[row % ranks].push_back(first + i);
    out.push_back(of_rank);
  }
  return out;
}

}  // namespace kinora::core
