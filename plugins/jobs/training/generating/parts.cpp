#include "plugins/jobs/training/generating/parts.hpp"

#include "core/io/safetensors.hpp"

namespace kinora::core {

Part part_of(const JobView& context, const std::string& slot, const std::string& weights_option,
             const std::string& trained_by) {
  const auto& spec = context.spec();
  auto weights = weights_in(spec.options, weights_option);
  if (const auto* own = spec.component(slot)) {
    if (weights.empty())
      throw Error(KINORA_INVALID, "the job has its own " + slot + "; set its weights: " +
                                      weights_option + " = \"FILE or FOLDER\"");
    return {own, std::move(weights)};
  }
  const JobSpec* job = context.upstream(trained_by);
  if (!job)
    throw Error(KINORA_INVALID, "the job needs a " + slot + ": make a job of kind " + trained_by +
                                    " its input, or set one: " + slot + " = { use = \"...\" } and " +
                                    weights_option + " = \"FILE or FOLDER\"");
  if (weights.empty()) weights = {file_or_index(context.folder_of(*job) / "weights.safetensors")};
  return {job->component(slot), std::move(weights)};
}

std::unique_ptr<Network> open_part(const JobView& context, const Part& part, const ChainOptions& chain) {
  auto network = std::make_unique<Network>(context.open(*part.use), part.use->options, chain);
  network->load(part.weights);
  return network;
}

}  // namespace kinora::core
