#include "plugins/jobs/train-tokenizer/check_train_tokenizer.hpp"

#include <ATen/ATen.h>

#include "core/torch/ranks/parallelism.hpp"
#include "core/torch/tensors/torch_guard.hpp"
#include "plugins/jobs/inference/network_checks.hpp"
#include "plugins/jobs/train-tokenizer/reconstruction_scores.hpp"
#include "plugins/jobs/train-tokenizer/tokenizer_critic.hpp"
#include "plugins/jobs/train-tokenizer/tokenizer_objective.hpp"
#include "plugins/jobs/train-tokenizer/train_tokenizer_options.hpp"
#include "plugins/jobs/train-tokenizer/video_features.hpp"
#include "plugins/jobs/training/training_checks.hpp"
#include "plugins/jobs/windows/window_checks.hpp"

namespace kinora::core {
namespace {

void check_critic(JobCheck& check, Tokenizer& tokenizer, const std::string& last) {
  const auto* use = check.spec().component("critic");
  if (!use) return;
  check.made("critic", [&] { return on_meta<Model>(check, *use) != nullptr; });
  check.holds(check.spec().places.count("last_layer") ? "last_layer" : "critic",
              [&] { last_layer(tokenizer.chain(), last); });
}

void require_one_start(const TrainTokenizerOptions& o) {
  if (o.start == "principal" && !o.weights.empty())
    raise(KINORA_ERROR_INVALID,
          "start = \"principal\" and weights = \"{}\" both set the initial weights; remove one",
          o.weights.front().string());
}

// Every rank would compute the same gradient, and the sum over ranks would be too large.
void require_data_axes(const JobCheck& job, const std::string& tokenizer) {
  const auto axes = catching([&] { return Parallelism::axes(job, job.ranks()); });
  if (!axes) return;
  for (const char* axis : {"pp", "cp", "tp"})
    if (const auto found = axes->find(axis); found != axes->end() && found->second > 1)
      raise(KINORA_ERROR_INVALID,
            "parallel: {} has no sequence that ranks along {} could share; use ddp or fsdp, which give them "
            "different videos",
            tokenizer, axis);
}

// Finds what the tokenizer refuses by its options. Meta tensors have no numbers to fit, so other errors are ignored.
void check_principal(JobCheck& check, Tokenizer& network, const TrainTokenizerOptions& o) {
  if (!check.holds("start", [&] { network.require_fit(); })) return;
  check.holds("start", [&] {
    try {
      network.fit(at::zeros({1, 3, o.frames, o.height, o.width}, at::Device(at::kMeta)));
    } catch (const Error& e) {
      if (e.code() == KINORA_ERROR_UNSUPPORTED) throw;
    } catch (const std::exception&) {
    }
  });
}

}  // namespace

void check_train_tokenizer(JobCheck& check) {
  const auto o = check.options<TrainTokenizerOptions>();
  if (!check_single_networks(check)) return;
  const auto& use = *check.spec().component("tokenizer");
  check_training(check, o, use);
  check_transforms(check);
  check.holds("start", [&] { require_one_start(o); });
  const auto* features = check.spec().component("features");
  if (features || !o.features_weights.empty())
    check.holds(features ? "features" : "features_weights", [&] { VideoFeatures::require(check); });
  if (features) check_weights(check, "features_weights", *features);
  check.holds("scores", [&] { ReconstructionScores(check, features || !o.features_weights.empty()); });
  const auto network = check.made("tokenizer", [&] { return on_meta<Tokenizer>(check, use); });
  if (check.holds("parallel", [&] { require_data_axes(check, use.id); }))
    check_layout(check, network ? &use : nullptr, {}, o.accumulate);
  if (!network) return;
  if (!o.partial) check_fit(check, "weights", **network, o.weights);
  if (o.start == "principal") check_principal(check, **network, o);
  check_size(check, (*network)->info(), use.id, o.frames, o.height, o.width);
  check_crops(check, (*network)->info(), use.id, {{o.frames, o.height, o.width}});
  check.holds(check.spec().component("perceptual") ? "perceptual" : "kl",
              [&] { TokenizerObjective(check, **network, o); });
  check_critic(check, **network, o.last_layer);
}

}  // namespace kinora::core
