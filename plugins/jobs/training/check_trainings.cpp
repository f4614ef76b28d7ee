// Checks train and train-tokenizer jobs.
#include <ATen/ATen.h>

#include "core/torch/context/parallelism.hpp"
#include "core/torch/tensors/torch_guard.hpp"
#include "plugins/jobs/training/checks.hpp"
#include "plugins/jobs/training/generating/frames.hpp"
#include "plugins/jobs/training/generating/rules.hpp"
#include "plugins/jobs/training/objective.hpp"
#include "plugins/jobs/training/options/training.hpp"
#include "plugins/jobs/training/reconstruction_scores.hpp"
#include "plugins/jobs/training/sample_draws.hpp"
#include "plugins/jobs/training/sample_grid.hpp"
#include "plugins/jobs/training/tokenizer_critic.hpp"
#include "plugins/jobs/training/tokenizer_objective.hpp"
#include "plugins/jobs/training/video_features.hpp"

namespace kinora::core {
namespace {

// A model with a smaller vocabulary than the tokenizer fails at the first larger code.
void require_vocabulary(const ComponentUse& model, const Encoded& data) {
  const auto known = model.options.values().value("vocab_size", data.codes);
  if (known < data.codes)
    raise(KINORA_ERROR_INVALID, "model: vocab_size = {}, and {} makes {} codes; raise it", known,
          data.tokenizer, data.codes);
}

void require_given(const TrainOptions& o, const ComponentSpec& spec, const ComponentUse& use,
                   const std::vector<int64_t>& latent) {
  const auto told = told_by(spec, use.options.values().value("in_channels", latent[0]), latent[0]);
  require_given(*std::max_element(o.condition_frames.begin(), o.condition_frames.end()), latent[1], told,
                use.id);
}

// The first option of the frame rule that the run file sets.
std::string rule_place(const JobCheck& check) {
  for (const char* option : {"teacher_forcing", "causal", "levels", "chunk", "window", "sink"})
    if (check.spec().places.count(option)) return option;
  return "levels";
}

// Checks validation, pictures and given frames.
void check_looks(JobCheck& check, const TrainOptions& o, const LossInstance& loss) {
  check.holds(o.condition_frames.empty() ? "condition_noise" : "condition_frames",
              [&] { GivenDraw::require(o, loss); });
  check.holds(rule_place(check), [&] { LevelDraw::require(o, loss); });
  if (o.condition_frames.empty() && !o.teacher_forcing && check.spec().places.count("condition_sigma"))
    check.problem("condition_sigma",
                  "condition_sigma applies to given frames; set their number: condition_frames = [0, 1]");
  check.holds("validation_sigmas", [&] { validation_levels(loss, o.validation_sigmas); });
  if (o.sample_every == 0) return;
  if (!loss.draws_noise())
    check.problem("sample_every", "sample_every draws from noise, and " + loss.spec().id +
                                      " is not the loss of a denoiser; leave it out");
  check.holds("samples", [&] { require_samples(o); });
  const auto* own = check.spec().component("sampler");
  check.holds(own ? "sampler" : "sample_steps", [&] { sample_sampler(check, o, loss.mix())->levels(); });
}

void check_expert(JobCheck& check, const TrainOptions& o) {
  if (o.expert.empty()) return;
  if (o.pipeline.empty())
    check.problem("expert",
                  "expert is for jobs with pipeline = \"FOLDER\", whose boundary it needs; here set the "
                  "limits of the levels in the loss: loss = { use = \"flow\", sigma_min = 0.875 }");
  else if (o.sample_every > 0)
    check.warning(
        "sample_every",
        fmt::format("sample_every: its pictures are made by the expert for {} noise alone, which is trained "
                    "on its own share of the levels; a generate job uses both experts",
                    o.expert));
}

void check_critic(JobCheck& check, Network& tokenizer, const std::string& last) {
  const auto* use = check.spec().component("critic");
  if (!use) return;
  check.made("critic", [&] { return on_meta(check, *use) != nullptr; });
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

}  // namespace

std::optional<LoraOptions> lora_of(const TrainOptions& o) {
  if (o.lora.empty() && o.adapter.empty()) return std::nullopt;
  if (!o.lora.empty() && !o.adapter.empty())
    raise(KINORA_ERROR_INVALID,
          "lora and adapter are both given; an adapter has its own rank and modules; leave lora out");
  if (o.adapter.empty() && std::filesystem::exists(o.lora))
    raise(KINORA_ERROR_INVALID,
          "lora = '{0}' is a file or folder; to continue with an adapter, set adapter = '{0}'", o.lora);
  return parse_lora(o.adapter.empty() ? o.lora : o.adapter);
}

void require_base(const TrainOptions& o) {
  if (o.weights.empty() && !(o.lora.empty() && o.adapter.empty()))
    raise(KINORA_ERROR_INVALID,
          "an adapter is trained on a model's weights; set weights = \"FILE or FOLDER\"");
}

void check_train(JobCheck& check) {
  const auto o = check.options<TrainOptions>();
  const auto& use = *check.spec().component("model");
  check_training(check, o, use);
  check_expert(check, o);
  std::optional<LoraOptions> lora;
  const char* adapting = o.adapter.empty() ? "lora" : "adapter";
  std::error_code ignored;
  const bool can_read = check.finds("adapter", o.adapter) && std::filesystem::exists(o.adapter, ignored);
  if (can_read || !o.lora.empty()) check.holds(adapting, [&] { lora = lora_of(o); });
  const auto loss = check.made("loss", [&] {
    const auto& its = *check.spec().component("loss");
    return std::make_unique<LossInstance>(check.open(its), its.options);
  });
  check.holds(adapting, [&] { require_base(o); });
  if (loss) check_looks(check, o, **loss);
  const auto model = check.made("model", [&] { return on_meta(check, use); });
  if (model) check_fit(check, "weights", **model, o.weights);
  const bool declared = model && (!lora || check.holds(adapting, [&] { on_meta(check, use, lora); }));
  check_layout(check, declared ? &use : nullptr, lora, o.accumulate);
  const auto data = encoded_for(check);
  if (!data) return;
  const auto& spec = *or_throw(check.runtime().registry().find("model", use.id));
  const bool of_one_kind =
      check.holds("model", [&] { require_one_kind(spec, data->tokenizer, data->of_codes()); });
  const bool of_loss = loss && check.holds("loss", [&] { require_data(**loss, data->of_codes()); });
  if (!of_one_kind || !of_loss || !model) return;
  check.holds("model", [&] { require_vocabulary(use, *data); });
  const auto axes = catching([&] { return Parallelism::axes(check, check.ranks()); });
  if (axes)
    check.holds(check.spec().places.count("batches") ? "batches" : "model",
                [&] { require_window_sizes(o, **loss, spec, data->sizes, Parallelism::data_ranks(*axes)); });
  if (!o.condition_frames.empty() && !data->of_codes())
    check.holds("condition_frames", [&] { require_given(o, spec, use, data->shape); });
  bool by_frame = false;
  if ((*loss)->draws_noise() && !check.holds(rule_place(check), [&] {
        by_frame = require_levels(o, spec, use.options, data->shape[1]);
      }))
    return;
  check_forward(check, **model, use, *data, (*loss)->draws_noise(), by_frame);
}

namespace {

// Finds what the tokenizer refuses by its options. Meta tensors have no numbers to fit, so other errors are ignored.
void check_principal(JobCheck& check, Network& network, const TrainTokenizerOptions& o) {
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
  const auto& use = *check.spec().component("tokenizer");
  check_training(check, o, use);
  check_transforms(check);
  check.holds("start", [&] { require_one_start(o); });
  const auto* features = check.spec().component("features");
  if (features || !o.features_weights.empty())
    check.holds(features ? "features" : "features_weights", [&] { VideoFeatures::require(check); });
  if (features) check_weights(check, "features_weights", *features);
  check.holds("scores", [&] { ReconstructionScores(check, features || !o.features_weights.empty()); });
  const auto network = check.made("tokenizer", [&] { return on_meta(check, use); });
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
