// Checks encode and generate jobs.
#include <ATen/ATen.h>

#include "core/torch/context/cache_instance.hpp"
#include "core/torch/context/instances.hpp"
#include "core/torch/context/parallelism.hpp"
#include "core/torch/media/signals.hpp"
#include "core/torch/tensors/torch_guard.hpp"
#include "plugins/jobs/training/checks.hpp"
#include "plugins/jobs/training/generating/frames.hpp"
#include "plugins/jobs/training/generating/next_token.hpp"
#include "plugins/jobs/training/generating/parts.hpp"
#include "plugins/jobs/training/generating/rules.hpp"
#include "plugins/jobs/training/generating/wishes.hpp"
#include "plugins/jobs/training/live/kept_latents.hpp"
#include "plugins/jobs/training/live/window_size.hpp"

namespace kinora::core {
namespace {

// Its weights become the first expert's.
void check_experts(JobCheck& check, Part& model) {
  std::optional<TwoExperts> two;
  const bool own = check.spec().component("model") != nullptr;
  check.holds(own ? "weights_2" : "input", [&] { two = two_experts(check, model); });
  if (!two) return;
  check_weights(check, "weights_2", *model.use, two->low);
  const auto network = catching([&] { return on_meta(check, *model.use); });
  if (network) check_fit(check, "weights_2", **network, two->low);
  if (network && !own) check_fit(check, "input", **network, model.weights);
}

// The network of a slot on the meta device, checked against its weights. Not for a network that an earlier
// job trains: that job's own check covers it.
struct GivenPart {
  Part part;
  std::unique_ptr<Network> network;
};
std::optional<GivenPart> check_part(JobCheck& check, const char* slot, const char* weights,
                                    const char* trained_by) {
  auto part = check.made(slot, [&] { return part_of(check, slot, weights, trained_by); });
  if (!part) return std::nullopt;
  if (slot == std::string("model")) check_experts(check, *part);
  const auto open = [&] { return on_meta(check, *part->use); };
  if (!check.spec().component(slot)) {
    const auto given = weights_in(check.spec().options, weights);
    check_weights(check, weights, *part->use, given);
    auto network = catching(open);
    if (network) check_fit(check, weights, **network, given);
    return network ? std::optional<GivenPart>({*part, std::move(*network)}) : std::nullopt;
  }
  check_weights(check, weights, *part->use, part->weights);
  auto network = check.made(slot, open);
  if (network) check_fit(check, weights, **network, part->weights);
  return network ? std::optional<GivenPart>({*part, std::move(*network)}) : std::nullopt;
}

void check_wishes(JobCheck& check, const GenerateOptions& o) {
  const auto all =
      check.made(o.prompts_file.empty() ? "prompts" : "prompts_file", [&] { return wishes(check, o); });
  check.holds("format", [&] { require_formats(o); });
  if (check.finds("last_image", o.last_image) && !o.last_image.empty() && o.image.empty())
    check.problem("last_image", "last_image needs `image`, the first frame; give both");
  if (!all) return;
  check.holds("strength", [&] { require_video(o, *all); });
  const auto begins = [](const Wish& w) { return !w.video.empty() || !w.image.empty(); };
  if (check.spec().places.count("condition_frames") && std::none_of(all->begin(), all->end(), begins))
    check.problem("condition_frames", "condition_frames applies to a video to continue; set video");
  std::set<std::string> seen;
  for (const auto& wish : *all) {
    if (seen.insert(wish.image).second) check.finds("image", wish.image);
    if (seen.insert(wish.video).second) check.finds("video", wish.video);
  }
}

// Options that have no effect here because another job decides.
void check_without_effect(JobCheck& check) {
  if (until_step(check.spec()) > 0)
    check.problem("precision",
                  "precision: until is a step of training, and a generate job has none; leave it out");
  if (check.spec().options.at("steps") != 0 && check.spec().options.at("pipeline") == "")
    check.problem(
        "steps",
        "steps is for jobs with pipeline = \"FOLDER\"; here set it in the sampler: sampler = { use = "
        "\"...\", steps = ... }");
  for (const std::string slot : {"text", "image_encoder"})
    if (!check.spec().component(slot) && !weights_in(check.spec().options, slot + "_weights").empty())
      check.problem(slot + "_weights", slot + "_weights is for an encoder of this job; set one, " + slot +
                                           " = { use = \"...\" }, or leave it out to use the encode job's");
  if (!check.spec().component("model") && check.upstream("encode") && check.spec().places.count("sigma_data"))
    check.problem("sigma_data", "sigma_data is the encode job's; leave it out");
}

// The attention rule is part of a model's training.
void check_rule(JobCheck& check, const GenerateOptions& o) {
  const char* first = nullptr;
  for (const char* option : {"causal", "chunk", "window", "sink", "teacher_forcing"}) {
    if (!check.spec().places.count(option)) continue;
    first = first ? first : option;
    if (!check.spec().component("model"))
      check.problem(option, std::string(option) + " is the train job's; leave it out");
  }
  if (first && check.spec().component("model")) check.holds(first, [&] { require_frames(o); });
}

// The loss and the model together make the denoiser.
void check_denoiser(JobCheck& check) {
  const auto& job = check.spec();
  if (job.component("model") || job.component("loss"))
    check.holds("loss", [&] {
      const auto& use = loss_of(check);
      if (const LossInstance loss(check.open(use), use.options); !loss.draws_noise())
        raise(KINORA_ERROR_INVALID,
              "loss: {} works without noise, and a sampler removes noise; choose one such as edm or flow",
              use.id);
    });
  if (job.options.at("condition_sigma") == 0)
    check.holds("condition_sigma", [&] {
      const auto& use = loss_of(check);
      if (clean_sigma(LossInstance(check.open(use), use.options), 1) != 0)
        raise(KINORA_ERROR_INVALID,
              "condition_sigma = 0: {} has no noise level 0; give a small one, such as 1e-4", use.id);
    });
  const auto& sampler = *job.component("sampler");
  check.holds("sampler", [&] { SamplerInstance(check.open(sampler), sampler.options).levels(); });
}

void check_noise(JobCheck& check, const GenerateOptions& o, const std::vector<int64_t>& shape) {
  if (!std::filesystem::exists(o.noise)) return;  // an earlier job makes it
  for (const auto& wish : wishes(check, o)) require_noise(o.noise, wish.number, shape);
}

// Rows (dimension 1) or columns (2) of latents in a token of the model. 1 for a model without such an option.
int64_t patch_of(const ComponentUse& model, size_t dimension) {
  const json& options = model.options.values();
  const json sizes = options.value("patch_size", json());
  const json size =
      sizes.is_array() && sizes.size() == 3 ? sizes[dimension] : options.value("patch_space", json());
  return size.is_number_integer() ? std::max<int64_t>(size.get<int64_t>(), 1) : 1;
}

// Checks each given dimension for the tokenizer and for the patches of the model. Returns whether all fit.
bool check_given_size(JobCheck& check, const GenerateOptions& o, const kinora_tokenizer_info& info,
                      const ComponentUse& model, const std::string& tokenizer) {
  bool fits = o.frames <= 0 || check.holds("frames", [&] { latent_frames(info, tokenizer, o.frames); });
  const auto divides = [&](const char* option, int64_t given, int64_t factor, size_t dimension) {
    if (given <= 0) return true;
    const int64_t patch = info.discrete ? 1 : patch_of(model, dimension);
    const std::string by =
        patch == 1 ? tokenizer
                   : fmt::format("{} and patches of {} latents of {}", tokenizer, patch, model.id);
    return check.holds(option, [&] { require_divided(option, given, factor * patch, by); });
  };
  fits = divides("height", o.height, info.height, 1) && fits;
  return divides("width", o.width, info.width, 2) && fits;
}

// Options that do not apply to this kind of model.
void check_kind(JobCheck& check, const GenerateOptions& o, bool of_codes) {
  const char* why = of_codes ? "models that denoise; codes are drawn one by one"
                             : "models that draw codes one by one; this one denoises";
  for (const char* option : of_other_kind(o, of_codes))
    check.problem(option, fmt::format("{} is for {}", option, why));
  if (of_codes)
    check.holds("cache", [&] {
      const auto& use = *check.spec().component("cache");
      CacheInstance(check.open(use), use.options);
    });
  else if (check.spec().places.count("cache"))
    check.problem("cache", fmt::format("cache is for {}", why));
}

}  // namespace

namespace {

// Every rank holds all layers of the tokenizer.
void require_encoding(const MeshOwner::Sizes& axes, const kinora_tokenizer_info& info,
                      const std::string& tokenizer) {
  for (const auto& [axis, size] : axes)
    if (axis != "dp" && axis != "cp")
      raise(KINORA_ERROR_INVALID,
            "parallel: an encode job keeps its networks whole on every rank, but {} splits them; give "
            "ddp, which divides the clips, or a strategy along cp, which divides the time of each",
            axis);
  if (axes.contains("cp") && info.encode_span == 0)
    raise(KINORA_ERROR_INVALID,
          "parallel: {} encodes a frame together with all earlier ones, so the time of a clip cannot be "
          "divided "
          "along cp; give ddp, which divides the clips",
          tokenizer);
}

}  // namespace

namespace {

void require_sizes(const JobCheck& check, const EncodeOptions& o, const kinora_tokenizer_info& info,
                   const std::string& tokenizer) {
  if (!check.spec().data)
    raise(KINORA_ERROR_INVALID,
          "sizes applies to a table of data, whose windows are encoded when training takes them; write "
          "input = {{ path = \"shards/\" }}, or leave sizes out");
  if (o.first_frame || info.discrete)
    raise(KINORA_ERROR_INVALID, "sizes applies to latents without a first frame; leave {} out",
          o.first_frame ? "first_frame or sizes" : "sizes");
  for (const auto& text : o.sizes) {
    const WindowSize size = window_size(text);
    try {
      latent_frames(info, tokenizer, size.frames);
      latent_rows(info, tokenizer, size.height);
      latent_columns(info, tokenizer, size.width);
    } catch (const Error& e) {
      raise(KINORA_ERROR_INVALID, "sizes: \"{}\": {}", text, e.what());
    }
  }
}

}  // namespace

void check_encode(JobCheck& check) {
  const auto o = check.options<EncodeOptions>();
  check_device(check);
  const auto axes = check.made("parallel", [&] { return Parallelism::axes(check, check.ranks()); });
  check.holds("signals", [&] { Signals(o.signals, o.every); });
  check_layout(check, nullptr, {}, 0);
  check_transforms(check);
  check.holds("latent_cache", [&] { require_kept_latents(check, o); });
  check_text(check);
  check_image_encoder(check);
  const auto tokenizer = check_part(check, "tokenizer", "tokenizer_weights", "train-tokenizer");
  if (!tokenizer) return;
  const auto info = tokenizer->network->info();
  if (o.first_frame && info.discrete)
    check.problem("first_frame", "first_frame applies to latents, but " + tokenizer->part.use->id +
                                     " makes codes; leave it out");
  if (o.last_frame && !o.first_frame)
    check.problem("last_frame",
                  "last_frame ends the condition that first_frame begins; set first_frame = true");
  if (o.last_frame && axes && axes->contains("cp") && check.spec().component("image_encoder"))
    check.problem(
        "parallel",
        "parallel: with last_frame the image encoder reads both ends of a window, which ranks along cp "
        "divide; give ddp, which divides the clips");
  if (axes) check.holds("parallel", [&] { require_encoding(*axes, info, tokenizer->part.use->id); });
  check_size(check, info, tokenizer->part.use->id, o.frames, o.height, o.width);
  const bool have_sizes = check.holds("sizes", [&] {
    if (!o.sizes.empty()) require_sizes(check, o, info, tokenizer->part.use->id);
  });
  if (have_sizes) check_crops(check, info, tokenizer->part.use->id, window_sizes(o));
}

void check_generate(JobCheck& check) {
  const auto o = check.options<GenerateOptions>();
  check_wishes(check, o);
  const auto axes = check.made("parallel", [&] { return Parallelism::axes(check, check.ranks()); });
  check_without_effect(check);
  check_rule(check, o);
  check_text(check);
  check_image_encoder(check);
  check.holds("guidance_interval", [&] { require_interval(o); });
  const auto model = check_part(check, "model", "weights", "train");
  const auto tokenizer = check_part(check, "tokenizer", "tokenizer_weights", "train-tokenizer");
  check_layout(check, model ? model->part.use : nullptr, {}, 0);
  if (!model) return check_device(check);
  const auto& use = *model->part.use;
  const auto& spec = *or_throw(check.runtime().registry().find("model", use.id));
  const bool of_codes = NextToken::is_for(spec);
  check.holds("signals", [&] {
    for (const auto& [name, values] : given_signals(o.signals)) require_signal(spec, use.options, name);
  });
  check_kind(check, o, of_codes);
  if (of_codes && axes)
    check.holds("parallel", [&] {
      int64_t ranks = 1;
      for (const auto& [axis, size] : *axes) ranks *= size;
      NextToken::require_alone(use.id, ranks / Parallelism::data_ranks(*axes));
    });
  if (!of_codes) {
    check_device(check);  // codes are drawn on the CPU
    check_denoiser(check);
  }
  if (!tokenizer) return;
  const auto info = tokenizer->network->info();
  const auto& id = tokenizer->part.use->id;
  const auto& job = check.spec();
  const bool has_own = job.component("model") || job.component("tokenizer");
  if (has_own && !check.holds("tokenizer", [&] { require_one_kind(spec, id, info.discrete != 0); })) return;
  const auto data = encoded_for(check);
  if (!data && check.upstream("encode")) return;
  if (!check_given_size(check, o, info, use, id)) return;
  const auto shape = check.made(
      "frames", [&] { return latent_shape(info, id, data ? data->shape : std::vector<int64_t>(), o); });
  if (shape && !of_codes && !o.noise.empty() && check.finds("noise", o.noise))
    check.holds("noise", [&] { check_noise(check, o, *shape); });
  if (shape && !of_codes && !o.last_image.empty())
    check.holds("last_image", [&] {
      const int64_t channels = use.options.values().value("in_channels", shape->at(0));
      if (told_by(spec, channels, shape->at(0), info.time + shape->at(0)) != ToldBy::channels)
        raise(KINORA_ERROR_INVALID,
              "last_image is for models that read pictures among their channels; {} reads {} channels",
              use.id, channels);
    });
  if (shape && !o.video.empty() && o.strength == 1)
    check.holds("condition_frames", [&] { require_condition_frames(info, id, o.condition_frames, *shape); });
  const bool as_in_training = !has_own && o.frames + o.height + o.width == 0;
  if (!shape || of_codes || as_in_training ||
      use.options.values().value("in_channels", shape->at(0)) != shape->at(0))
    return;
  check_forward(check, *model->network, use, {id, *shape, 0, data ? data->text_size : 0}, true);
}

}  // namespace kinora::core
