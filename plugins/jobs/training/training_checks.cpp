#include "plugins/jobs/training/training_checks.hpp"

#include <fmt/format.h>

#include "core/torch/ranks/parallelism.hpp"
#include "core/torch/tensors/torch_guard.hpp"
#include "plugins/jobs/inference/network_checks.hpp"
#include "plugins/jobs/training/trainer.hpp"

namespace kinora::core {

void check_training(JobCheck& check, const OptimizerOptions& o, const ComponentUse& trained) {
  check_device(check);
  check_weights(check, "weights", trained);
  const auto axes = check.made("parallel", [&] { return Parallelism::axes(check, check.ranks()); });
  if (axes && axes->contains("cfg"))
    check.problem(
        "parallel",
        "parallel: cfg divides the two predictions of guidance, which training does not have; leave it to "
        "generate jobs");
  if (axes) check.holds("batch", [&] { require_batch(o, Parallelism::data_ranks(*axes)); });
  if (const int64_t until = until_step(check.spec()); until > 0 && until >= o.steps)
    check.warning("precision",
                  fmt::format("precision: until = {} is not below the {} steps of the job, so no step is in "
                              "bfloat16; lower it, or leave it out",
                              until, o.steps));
}

std::optional<LoraOptions> lora_of(const std::string& lora, const std::string& adapter) {
  if (lora.empty() && adapter.empty()) return std::nullopt;
  if (!lora.empty() && !adapter.empty())
    raise(KINORA_ERROR_INVALID,
          "lora and adapter are both given; an adapter has its own rank and modules; leave lora out");
  if (adapter.empty() && std::filesystem::exists(lora))
    raise(KINORA_ERROR_INVALID,
          "lora = '{0}' is a file or folder; to continue with an adapter, set adapter = '{0}'", lora);
  return parse_lora(adapter.empty() ? lora : adapter);
}

void require_base(const TrainOptions& o) {
  if (o.weights.empty() && !(o.lora.empty() && o.adapter.empty()))
    raise(KINORA_ERROR_INVALID,
          "an adapter is trained on a model's weights; set weights = \"FILE or FOLDER\"");
}

}  // namespace kinora::core
