// kind = "distill": makes a model that makes a video chunk by chunk a few-step one, by distribution matching
// (matching.hpp), or before that by what causal_starts.hpp says.
#include "plugins/jobs/distill/causal_starts.hpp"
#include "plugins/jobs/distill/check_distill.hpp"
#include "plugins/jobs/distill/matching.hpp"
#include "plugins/jobs/media/strip.hpp"
#include "plugins/jobs/inference/tensor_job.hpp"

namespace kinora::core {

class Distill final : public TensorJob {
 public:
  using Options = DistillOptions;
  static JobParts parts();
  std::vector<std::string> grows_by() const override { return {"steps"}; }

 private:
  void work(JobContext&) const override;
  void examine(JobCheck& check) const override { check_distill(check); }
};

JobParts Distill::parts() {
  return {.slots = {{.name = "loss",
                     .kind = "loss",
                     .use = "dmd",
                     .required = true,
                     .help = "loss of the student, which compares the scores of teacher and critic"},
                    {.name = "sampler",
                     .kind = "sampler",
                     .use = "flow-renoise",
                     .required = true,
                     .help = "few-step sampler whose levels the student learns",
                     .from = "distill"},
                    {.name = "teacher",
                     .kind = "model",
                     .help = "teacher of another architecture than the student's",
                     .weights = "teacher_weights"},
                    {.name = "cache",
                     .kind = "cache",
                     .use = "kv",
                     .required = true,
                     .help = "cache of the keys and values of earlier chunks in rollouts"},
                    kOptimizerSlot,
                    {.name = "critic_optimizer",
                     .kind = "optimizer",
                     .use = "adamw",
                     .required = true,
                     .help = "change of the critic's weights by their gradients"},
                    kParallelSlot,
                    kPrecisionSlot,
                    kCollectiveSlot},
          .reads = {"encode", "train", "distill"},
          .tensors = true};
}

void Distill::work(JobContext& context) const {
  const auto options = context.options<DistillOptions>();
  use_threads(options.threads);
  if (options.method == "ode") return CausalOde(context, options).run();
  if (options.method == "consistency") return CausalConsistency(context, options).run();
  Matching(context, options).run();
}

}  // namespace kinora::core

using kinora::core::Distill;
KINORA_JOB(Distill)
KINORA_PLUGIN(Distill)
