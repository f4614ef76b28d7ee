#include "plugins/jobs/train/check_train.hpp"

#include <ATen/ATen.h>

#include "core/torch/ranks/parallelism.hpp"
#include "core/torch/tensors/torch_guard.hpp"
#include "plugins/jobs/inference/frames.hpp"
#include "plugins/jobs/inference/network_checks.hpp"
#include "plugins/jobs/inference/rules.hpp"
#include "plugins/jobs/training/error_bank.hpp"
#include "plugins/jobs/training/objective.hpp"
#include "plugins/jobs/training/options/train_options.hpp"
#include "plugins/jobs/training/sample_draws.hpp"
#include "plugins/jobs/training/sample_grid.hpp"
#include "plugins/jobs/training/training_checks.hpp"
#include "plugins/jobs/windows/encoded.hpp"
#include "plugins/jobs/windows/window_checks.hpp"

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
  const auto input =
      condition_input_of(spec, use.options.values().value("in_channels", latent[0]), latent[0]);
  require_given(*std::max_element(o.condition_frames.begin(), o.condition_frames.end()), latent[1], input,
                use.id);
}

// A model that reads a picture among its channels needs latents that come with one.
void require_pictures(const JobSpec& encode, const ComponentSpec& spec, const ComponentUse& use,
                      const Encoded& data) {
  const int64_t channels = data.shape[0];
  const auto input = catching([&] {
    return condition_input_of(spec, use.options.values().value("in_channels", channels), channels);
  });
  if (input && *input == ConditionInput::channels && !encode.options.at("first_frame").get<bool>())
    raise(KINORA_ERROR_INVALID,
          "{} reads a picture among its channels, and job '{}' stores none with its latents; set first_frame "
          "= true "
          "there",
          use.id, encode.name);
}

// Makes `shape`, that of a window, the sample's. Returns whether the training can have samples of so many
// shots.
bool check_shots(JobCheck& check, const TrainOptions& o, const ComponentUse& model,
                 std::vector<int64_t>& shape) {
  for (const char* option : {"shot_pin", "shot_jump"})
    if (o.shots == 1 && check.spec().places.count(option))
      check.problem(option,
                    fmt::format("{} applies to samples of several shots; set shots = 2 or more", option));
  if (o.shots == 1) return true;
  return check.holds("shots", [&] {
    require_shots(o, model.options);
    require_cached(*check.upstream("encode"), cut_of(o));
    shape = joined_shape(std::move(shape), cut_of(o));
  });
}

// The first option of the frame rule that the run file sets.
std::string rule_place(const JobCheck& check) {
  for (const char* option : {"teacher_forcing", "causal", "levels", "chunk", "first_chunk", "window", "sink"})
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

}  // namespace

void check_train(JobCheck& check) {
  const auto o = check.options<TrainOptions>();
  if (!check_single_networks(check)) return;
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
  const auto model = check.made("model", [&] { return on_meta<Model>(check, use); });
  if (model) check_fit(check, "weights", **model, o.weights);
  const bool declared = model && (!lora || check.holds(adapting, [&] { on_meta<Model>(check, use, lora); }));
  check_layout(check, declared ? &use : nullptr, lora, o.accumulate);
  if (!check_latents(check, o.pipeline)) return;
  auto data = encoded_for(check);
  if (!data || !check_shots(check, o, use, data->shape)) return;
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
  if (axes)
    check.holds("error_recycling",
                [&] { recycling_of(o, **loss, data->sizes, axes->contains("pp") ? axes->at("pp") : 1); });
  if (!data->of_codes())
    check.holds("model", [&] { require_pictures(*check.upstream("encode"), spec, use, *data); });
  if (!o.condition_frames.empty() && !data->of_codes())
    check.holds("condition_frames", [&] { require_given(o, spec, use, data->shape); });
  bool by_frame = false;
  if ((*loss)->draws_noise() && !check.holds(rule_place(check), [&] {
        by_frame = require_levels(o, spec, use.options, data->shape[1]);
      }))
    return;
  check_forward(check, **model, use, *data, (*loss)->draws_noise(), by_frame);
}

}  // namespace kinora::core
