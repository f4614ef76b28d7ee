#include "plugins/jobs/inference/network_checks.hpp"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include "core/torch/media/signals.hpp"
#include "core/torch/ranks/parallelism.hpp"
#include "core/torch/tensors/device.hpp"
#include "core/torch/tensors/torch_guard.hpp"
#include "core/torch/weights/published.hpp"
#include "host/stages/stage_check.hpp"
#include "host/weights/weights.hpp"
#include "plugins/jobs/inference/encoders.hpp"
#include "plugins/jobs/inference/next_token.hpp"
#include "plugins/jobs/inference/rehearsal.hpp"
#include "plugins/jobs/inference/rules.hpp"
#include "plugins/jobs/latents/latents.hpp"

namespace kinora::core {

void check_device(JobCheck& check) {
  check.holds("device", [&] { device_of(check.spec().options.at("device").get<std::string>()); });
}

std::optional<std::vector<int64_t>> check_size(JobCheck& check, const kinora_tokenizer_info& info,
                                               const std::string& tokenizer, int64_t frames, int64_t height,
                                               int64_t width) {
  const auto t = check.made("frames", [&] { return latent_frames(info, tokenizer, frames); }),
             h = check.made("height", [&] { return latent_rows(info, tokenizer, height); }),
             w = check.made("width", [&] { return latent_columns(info, tokenizer, width); });
  if (!t || !h || !w) return std::nullopt;
  return std::vector<int64_t>{*t, *h, *w};
}

void check_weights(JobCheck& check, const std::string& option, const ComponentUse& use) {
  check_weights(check, option, use, weights_in(check.spec().options, option));
}

void check_weights(JobCheck& check, const std::string& option, const ComponentUse& use,
                   const WeightsPaths& paths) {
  for (const auto& given : paths) {
    std::error_code ignored;
    const auto path = file_or_index(given);
    if (!check.finds(option, path) || !std::filesystem::exists(path, ignored) || is_archive(path)) continue;
    check.holds(option, [&] {
      const auto spec = or_throw(check.runtime().registry().find(use.id));
      or_throw(Safetensors::open(published_part(path, *spec)));
    });
  }
}

void check_fit(JobCheck& check, const std::string& option, Network& network, const WeightsPaths& paths) {
  for (const auto& given : paths) {
    std::error_code ignored;
    const auto path = file_or_index(given);
    const bool readable = std::filesystem::exists(path, ignored) && !is_archive(path);
    if (!readable || (check.ahead() && check.made_by_earlier_job(path))) return;
  }
  if (!paths.empty()) check.holds(option, [&] { network.require_weights(paths); });
}

void check_layout(JobCheck& check, const ComponentUse* network, const std::optional<LoraOptions>& lora,
                  int64_t microbatches) {
  const auto axes = catching([&] { return Parallelism::axes(check, check.ranks()); });
  if (!axes) return;  // reported where they are requested
  check.holds("parallel", [&] {
    const Rehearsal ranks(check, *axes);
    if (microbatches > 0) check.holds("parallel", [&] { ranks.step(microbatches); });
    if (!network) return;
    const auto tried = [](auto&& declare) { return catching([&] { return with_plain_errors(declare); }); };
    const auto together = tried([&] { return ranks.declare(*network, lora); });
    if (!together) {
      const bool alone = !tried([&] { return ranks.declare_alone(*network, lora); });
      check.problem(alone ? "precision" : "parallel", together.failure().message);
    } else if (*together) {
      check.warning("precision", "precision: no layer of " + network->id + " is low in " +
                                     check.spec().component("precision")->id +
                                     ", so all are in bfloat16; name fewer layers in `high`");
    }
  });
}

int64_t until_step(const JobSpec& job) {
  const auto* precision = job.component("precision");
  const json until = precision ? precision->options.values().value("until", json()) : json();
  return until.is_number_integer() ? until.get<int64_t>() : 0;
}

void check_text(JobCheck& check) {
  const auto* text = check.spec().component("text");
  const auto* words = check.spec().component("words");
  if (words) check_stage(check, *words);
  if (!text) return;
  if (!words) check.problem("text", "text: the encoder reads tokens; set a stage that makes them in words");
  if (weights_in(check.spec().options, "text_weights").empty())
    check.problem("text",
                  "text: the job has its own text encoder; set its weights: text_weights = "
                  "\"FILE or FOLDER\"");
  check_weights(check, "text_weights", *text);
  const auto network = check.made("text", [&] { return on_meta<Model>(check, *text); });
  if (network) check_fit(check, "text_weights", **network, weights_in(check.spec().options, "text_weights"));
}

void check_image_encoder(JobCheck& check) {
  const auto* use = check.spec().component("image_encoder");
  if (!use) return;
  const bool is_sound = check.holds(
      "image_encoder", [&] { ImageEncoder::require(check.runtime(), ImageEncoder::part_of(check.spec())); });
  check_weights(check, "image_encoder_weights", *use);
  if (!is_sound) return;
  const auto network = check.made("image_encoder", [&] { return on_meta<Model>(check, *use); });
  if (network)
    check_fit(check, "image_encoder_weights", **network,
              weights_in(check.spec().options, "image_encoder_weights"));
}

namespace {

template <class N>
std::optional<GivenPart<N>> check_part(JobCheck& check, const char* slot, const char* weights,
                                       const char* trained_by,
                                       const std::function<void(JobCheck&, Part&)>& adapt) {
  auto part = check.made(slot, [&] { return part_of(check, slot, weights, trained_by); });
  if (!part) return std::nullopt;
  if (adapt) adapt(check, *part);
  const auto open = [&] { return on_meta<N>(check, *part->use); };
  if (!check.spec().component(slot)) {
    const auto given = weights_in(check.spec().options, weights);
    check_weights(check, weights, *part->use, given);
    auto network = catching(open);
    if (network) check_fit(check, weights, **network, given);
    return network ? std::optional<GivenPart<N>>({*part, std::move(*network)}) : std::nullopt;
  }
  check_weights(check, weights, *part->use, part->weights);
  auto network = check.made(slot, open);
  if (network) check_fit(check, weights, **network, part->weights);
  return network ? std::optional<GivenPart<N>>({*part, std::move(*network)}) : std::nullopt;
}

}  // namespace

std::optional<GivenPart<Model>> check_model_part(JobCheck& check,
                                                 const std::function<void(JobCheck&, Part&)>& adapt) {
  return check_part<Model>(check, "model", "weights", "train", adapt);
}

std::optional<GivenPart<Tokenizer>> check_tokenizer_part(JobCheck& check) {
  return check_part<Tokenizer>(check, "tokenizer", "tokenizer_weights", "train-tokenizer", {});
}

bool check_single_networks(JobCheck& check) {
  const auto& job = check.spec();
  for (const auto& option : job.kind->options) {
    if (option.name != "weights_2" && !option.name.ends_with("weights")) continue;
    for (const auto& path : weights_in(job.options, option.name)) {
      std::error_code ignored;
      if (!std::filesystem::exists(path / "model_index.json", ignored)) continue;
      check.problem(
          option.name,
          fmt::format(
              "{0} = \"{1}\": this is a whole pipeline, and {0} takes one network, without the "
              "scheduler and whatever else the folder says; set pipeline = \"{1}\", or name the folder "
              "of one network in it",
              option.name, path.string()));
      return false;
    }
  }
  return true;
}

}  // namespace kinora::core
