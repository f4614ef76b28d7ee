#include "plugins/jobs/generate/check_generate.hpp"

#include <algorithm>
#include <fstream>

#include <ATen/ATen.h>

#include "core/torch/media/signals.hpp"
#include "core/torch/network/cache_instance.hpp"
#include "core/torch/network/instances.hpp"
#include "core/torch/ranks/parallelism.hpp"
#include "core/torch/tensors/torch_guard.hpp"
#include "plugins/jobs/generate/check_shots.hpp"
#include "plugins/jobs/inference/frames.hpp"
#include "plugins/jobs/inference/network_checks.hpp"
#include "plugins/jobs/inference/next_token.hpp"
#include "plugins/jobs/inference/parts.hpp"
#include "plugins/jobs/inference/pipeline_spec.hpp"
#include "plugins/jobs/inference/requests.hpp"
#include "plugins/jobs/inference/rules.hpp"
#include "plugins/jobs/published/published_pipeline.hpp"
#include "plugins/jobs/windows/encoded.hpp"
#include "plugins/jobs/windows/window_checks.hpp"

namespace kinora::core {
namespace {

// Its weights become the first expert's.
void check_experts(JobCheck& check, Part& model) {
  std::optional<TwoExperts> two;
  const bool own = check.spec().component("model") != nullptr;
  check.holds(own ? "weights_2" : "input", [&] { two = two_experts(check, model); });
  if (!two) return;
  check_weights(check, "weights_2", *model.use, two->low);
  const auto network = catching([&] { return on_meta<Model>(check, *model.use); });
  if (network) check_fit(check, "weights_2", **network, two->low);
  if (network && !own) check_fit(check, "input", **network, model.weights);
}

void check_beginnings(JobCheck& check, const GenerateOptions& o, const std::vector<Request>& all) {
  if (!begins_with_text_alone(check, o)) return;
  const auto refuse = [&](const char* option, bool is_own, const char* remedy) {
    check.problem(
        is_own ? option : "prompts_file",
        fmt::format("{}: this pipeline begins with a text alone; leave `{}` out{}, or give the folder "
                    "of a pipeline that begins with a picture or a video",
                    o.pipeline, option, remedy));
  };
  const auto some = [&](auto&& has) { return std::any_of(all.begin(), all.end(), has); };
  if (some([](const Request& r) { return !r.image.empty(); })) refuse("image", !o.image.empty(), "");
  if (o.strength == 1 && some([](const Request& r) { return !r.video.empty(); }))
    refuse("video", !o.video.empty(), ", set strength below 1 to change it");
}

// Whether the file was made by a stream: it has the settings of a video from its beginning on.
bool is_of_stream(const std::filesystem::path& file) {
  constexpr size_t kBeginning = 1 << 20;
  std::string begin(kBeginning, '\0');
  std::ifstream in(file, std::ios::binary);
  in.read(begin.data(), kBeginning);
  begin.resize(static_cast<size_t>(in.gcount()));
  return begin.empty() || (begin.find("ftyp") == 4 && begin.find("\"options\":") != begin.npos);
}

// Nothing but an earlier stream is overwritten.
void check_stream(JobCheck& check, const std::string& stream) {
  namespace fs = std::filesystem;
  if (stream.empty() || stream == "-") return;
  std::error_code none;
  const fs::path file = fs::weakly_canonical(fs::absolute(stream), none),
                 out = fs::weakly_canonical(check.run().out, none);
  const auto within = file.lexically_relative(out);
  if (!within.empty() && *within.begin() != "..")
    check.problem("stream", fmt::format("{} is in the run's folder {}, whose files are its jobs'; choose a "
                                        "place outside of it",
                                        stream, out.string()));
  else if (!fs::is_directory(file.parent_path(), none))
    check.problem("stream", fmt::format("{}: the folder {} is missing; create it, or choose another", stream,
                                        file.parent_path().string()));
  else if (fs::is_regular_file(file, none) && !is_of_stream(file))
    check.problem("stream", fmt::format("{} exists and was not made by a stream; remove it, or choose "
                                        "another file",
                                        stream));
}

// Whether the videos' LoRA is one of the job's.
bool check_loras(JobCheck& check, const GenerateOptions& o) {
  const auto loras = check.made("loras", [&] { return inference::loras_of(check, o); });
  if (!loras) return false;
  for (const auto& one : *loras)
    for (const auto& file : {one.file, one.file_2}) check.finds("loras", file);
  return check.holds("lora", [&] { lora_use(o.lora, *loras); });
}

void check_requests(JobCheck& check, const GenerateOptions& o) {
  check_stream(check, o.stream);
  const auto all =
      check.made(o.prompts_file.empty() ? "prompts" : "prompts_file", [&] { return requests(check, o); });
  check.holds("format", [&] { require_formats(o); });
  if (!o.shots.empty() && o.frames > 0)
    check.warning("frames", "frames does not apply to shots; shot_frames cuts their end");
  if (all && all->size() > 1 && !o.stream.empty())
    check.problem("stream", fmt::format("stream is for one video, and this job makes {}", all->size()));
  for (const auto& given : {o.image, o.video, o.last_image, o.noise})
    if (std::error_code none; !given.empty() && std::filesystem::equivalent(given, o.stream, none))
      check.problem("stream",
                    o.stream + " is an input of this job, and would be overwritten; choose another file");
  if (check.finds("last_image", o.last_image) && !o.last_image.empty() && o.image.empty())
    check.problem("last_image", "last_image needs `image`, the first frame; give both");
  if (!all) return;
  check_beginnings(check, o, *all);
  check.holds("strength", [&] { require_video(o, *all); });
  const auto begins = [](const Request& r) { return !r.video.empty() || !r.image.empty(); };
  if (check.spec().places.count("condition_frames") && std::none_of(all->begin(), all->end(), begins))
    check.problem("condition_frames", "condition_frames applies to a video to continue; set video");
  std::set<std::string> seen;
  for (const auto& request : *all) {
    if (seen.insert(request.image).second) check.finds("image", request.image);
    if (seen.insert(request.video).second) check.finds("video", request.video);
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
  else if (check.spec().options.at("steps") != 0 && distilled_before(check) &&
           !check.spec().places.count("sampler"))
    check.problem(
        "steps",
        "steps is the distill job's, whose sampler lists them; leave it out, or set a sampler of this "
        "job: sampler = { use = \"flow-renoise\", timesteps = [...] }");
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
  for (const char* option : {"causal", "chunk", "first_chunk", "window", "sink", "teacher_forcing"}) {
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

// Calls f with each request and the shape of its latent, if that is known. shape: that of a video without shots.
template <class F>
void each_shape(JobCheck& check, const GenerateOptions& o, std::vector<int64_t> shape, int64_t time, F f) {
  const int64_t frames = shape[1];
  for (const auto& request : requests(check, o)) {
    shape[1] = latent_frames_of(check, o, request, time, frames);
    if (shape[1] > 0) f(request, shape);
  }
}

void check_noise(JobCheck& check, const GenerateOptions& o, const std::vector<int64_t>& shape, int64_t time) {
  if (!std::filesystem::exists(o.noise)) return;  // an earlier job makes it
  each_shape(check, o, shape, time, [&](const Request& request, const std::vector<int64_t>& its) {
    require_noise(o.noise, request.number, its);
  });
}

void check_given_frames(JobCheck& check, const GenerateOptions& o, const std::vector<int64_t>& shape,
                        const kinora_tokenizer_info& info, const std::string& tokenizer) {
  each_shape(check, o, shape, info.time, [&](const Request&, const std::vector<int64_t>& its) {
    require_condition_frames(info, tokenizer, o.condition_frames, its);
  });
}

// Checks each given dimension for the tokenizer and for the patches of the model. Returns whether all fit.
bool check_given_size(JobCheck& check, const GenerateOptions& o, const kinora_tokenizer_info& info,
                      const ComponentUse& model, const std::string& tokenizer) {
  const int64_t frames =
      inference::frame_rule_of(check, o).teacher_forcing ? whole_frames(info, o.frames) : o.frames;
  bool fits = frames <= 0 || check.holds("frames", [&] { latent_frames(info, tokenizer, frames); });
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

// A model that reads a picture among its channels makes every video from one.
void check_pictures(JobCheck& check, const GenerateOptions& o, const ComponentSpec& spec,
                    const ComponentUse& use, int64_t latent) {
  const auto input = catching(
      [&] { return condition_input_of(spec, use.options.values().value("in_channels", latent), latent); });
  const auto all = catching([&] { return requests(check, o); });
  if (!input || *input != ConditionInput::channels || !all) return;
  if (std::any_of(all->begin(), all->end(), [](const Request& r) { return r.image.empty(); }))
    check.problem(!o.video.empty()         ? "video"
                  : o.prompts_file.empty() ? "prompts"
                                           : "prompts_file",
                  use.id + " makes videos from a picture" +
                      (o.video.empty() ? "; set image" : ", not from a video; set image instead of video"));
}

// options: those of the cache, as cache_of_frames() gives them.
void check_capacity(JobCheck& check, const FrameOptions& rule, const json& options) {
  const int64_t capacity = options.value("capacity", int64_t{0}), sink = options.value("sink", int64_t{0}),
                least = rule.chunk + std::max<int64_t>(sink, 1),
                learnt = rule.window > 0 ? rule.sink_frames() + rule.window_frames() : 0;
  if (capacity == 0 || (learnt > 0 && capacity >= learnt)) return;
  const std::string all =
      learnt > 0 ? fmt::format("the {} latent frames that the model was trained to see, its sink and window",
                               learnt)
                 : "all that the model was trained to see";
  if (capacity < least)
    check.problem("cache", fmt::format("capacity = {} leaves a chunk nothing before it: it counts latent "
                                       "frames, the sink ({}) and the chunk itself ({}) included; give {} or "
                                       "more, or leave it out for {}",
                                       capacity, sink, rule.chunk, least, all));
  else if (learnt > 0)
    check.warning("cache", fmt::format("capacity = {} shows a chunk less than {}; the video takes less memory "
                                       "and may get worse; leave capacity out for all of them",
                                       capacity, all));
}

// Options that do not apply to this kind of model.
void check_kind(JobCheck& check, const GenerateOptions& o, bool of_codes) {
  const char* why = of_codes ? "models that denoise; codes are drawn one by one"
                             : "models that draw codes one by one; this one denoises";
  for (const char* option : of_other_kind(o, of_codes))
    check.problem(option, fmt::format("{} is for {}", option, why));
  const auto experts = catching([&] {
    Part model = part_of(check, "model", "weights", "train");
    return two_experts(check, model).has_value();
  });
  const std::string none = of_codes ? "" : inference::why_no_cache(check, o, experts && *experts);
  if (none.empty())
    check.holds("cache", [&] {
      const auto& use = *check.spec().component("cache");
      const Component component = check.open(use);
      const json options = of_codes
                               ? use.options.values()
                               : cache_of_frames(inference::frame_rule_of(check, o), use.options.values());
      CacheInstance(component, or_throw(Options::make(*component.spec, options)));
      if (!of_codes) check_capacity(check, inference::frame_rule_of(check, o), options);
    });
  else if (check.spec().places.count("cache"))
    check.problem("cache", none);
  check_shots(check, o, of_codes ? "this model draws the codes of a whole video, one by one" : none);
}

}  // namespace

namespace {

// channels: of the latent. time: frames of the video for one of the latent.
void require_last_image(const ComponentSpec& spec, const ComponentUse& use, int64_t channels, int64_t time) {
  const int64_t in = use.options.values().value("in_channels", channels);
  if (condition_input_of(spec, in, channels, time + channels) != ConditionInput::channels)
    raise(KINORA_ERROR_INVALID,
          "last_image is for models that read pictures among their channels; {} reads {} channels", use.id,
          in);
}

}  // namespace

bool begins_with_text_alone(const JobView& job, const GenerateOptions& o) {
  const auto* model = job.spec().component("model");
  const JobSpec* train = model ? nullptr : job.upstream("train");
  const auto pipeline = catching([&] { return PublishedPipeline(o.pipeline); });
  if (!pipeline || pipeline->takes_frames()) return false;
  if (model && model->id != pipeline->component("transformer")) return false;
  if (train && (train->options.at("pipeline") == "" || is_trained_with_frames(*train))) return false;
  return !inference::frame_rule_of(job, o).teacher_forcing;
}

void check_generate(JobCheck& check) {
  const auto o = check.options<GenerateOptions>();
  if (!check_single_networks(check) || !check_loras(check, o)) return;
  check_requests(check, o);
  const auto axes = check.made("parallel", [&] { return Parallelism::axes(check, check.ranks()); });
  check_without_effect(check);
  check_rule(check, o);
  check_text(check);
  check_image_encoder(check);
  check.holds("guidance_interval", [&] { require_interval(o); });
  const auto model = check_model_part(check, check_experts);
  const auto tokenizer = check_tokenizer_part(check);
  check_layout(check, model ? model->part.use.get() : nullptr, {}, 0);
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
  check_positions(check, o, use, info.time);
  const bool has_own = job.component("model") || job.component("tokenizer");
  if (has_own && !check.holds("tokenizer", [&] { require_one_kind(spec, id, info.discrete != 0); })) return;
  if (!check_decoder(check, o.pipeline)) return;
  const auto data = encoded_for(check);
  if (!data && check.upstream("encode")) return;
  if (!check_given_size(check, o, info, use, id)) return;
  const auto shape = check.made("frames", [&] {
    const int64_t frames =
        inference::frame_rule_of(check, o).teacher_forcing ? whole_frames(info, o.frames) : o.frames;
    return latent_shape(info, id, data ? data->shape : std::vector<int64_t>(), {frames, o.height, o.width});
  });
  if (shape && !of_codes && !o.noise.empty() && check.finds("noise", o.noise))
    check.holds("noise", [&] { check_noise(check, o, *shape, info.time); });
  if (shape && !of_codes && !o.last_image.empty())
    check.holds("last_image", [&] { require_last_image(spec, use, shape->at(0), info.time); });
  if (shape && !of_codes) check_pictures(check, o, spec, use, shape->at(0));
  if (shape && !o.video.empty() && o.strength == 1)
    check.holds("condition_frames", [&] { check_given_frames(check, o, *shape, info, id); });
  const bool as_in_training = !has_own && o.frames + o.height + o.width == 0;
  if (!shape || of_codes || as_in_training ||
      use.options.values().value("in_channels", shape->at(0)) != shape->at(0))
    return;
  check_forward(check, *model->network, use, {id, *shape, 0, data ? data->text_size : 0}, true);
}

}  // namespace kinora::core
