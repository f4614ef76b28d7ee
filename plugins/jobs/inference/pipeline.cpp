#include "plugins/jobs/inference/pipeline.hpp"

#include <algorithm>
#include <cmath>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "core/base/log.hpp"
#include "core/plugin/opening.hpp"
#include "core/torch/tensors/device.hpp"
#include "core/torch/tensors/torch_guard.hpp"
#include "kinora/aten.hpp"
#include "plugins/jobs/inference/next_token.hpp"
#include "plugins/jobs/inference/trained_precision.hpp"

namespace kinora::core::inference {

Component Pipeline::open(const std::string& slot) const {
  return open_component(runtime_.registry(), {}, spec_.use(slot).id);
}

Pipeline::Pipeline(Runtime& runtime, PipelineSpec spec, Parallelism& parallel)
    : runtime_(runtime),
      spec_(std::move(spec)),
      parallel_(parallel),
      together_(parallel.group("fsdp+pp+cfg+cp+tp")),
      model_spec_(*open("model").spec),
      makes_codes_(NextToken::is_for(model_spec_)),
      device_(makes_codes_ ? at::Device(at::kCPU) : device_of(spec_.device)),
      tokenizer_(open_part(runtime, spec_.parts.at("tokenizer"), spec_.kept, {.device = device_})),
      info_(tokenizer_->info()),
      shape_(latent_shape()),
      files_(
          std::make_unique<GivenFiles>(runtime, spec_.name, known_rate(), parallel.of_sample().rank == 0)) {
  const at::NoGradGuard off;
  auto links = parallel_.links();
  open_cache();
  if (cache_) links.push_back(cache_->link());
  model_ = open_model(std::move(links), spec_.has("model_2") ? AdapterOf::high : AdapterOf::any);
  require_one_kind(model_spec_, spec_.use("tokenizer").id, info_.discrete != 0);
  if (makes_codes()) {
    NextToken::require_alone(model_spec_.id, parallel_.of_sample().size);
    NextToken::require_inputs(model_spec_);
  } else {
    open_denoising();
  }
  load_model();
  warn_of_rate();
  open_encoders();
}

Pipeline::~Pipeline() = default;

// Codes need room for whole videos, so that there are never two copies.
void Pipeline::open_cache() {
  if (!spec_.has("cache")) return;
  const Component component = open("cache");
  json options = spec_.use("cache").options.values();
  if (!makes_codes_) options = cache_of_frames(spec_.rule, options);
  cache_ = std::make_unique<CacheInstance>(component, or_throw(Options::make(*component.spec, options)),
                                           makes_codes_ ? shape_[1] * shape_[2] * shape_[3] : 0);
  const int64_t capacity = options.value("capacity", int64_t{0});
  kept_sink_ = capacity > 0 ? options.value("sink", int64_t{0}) : spec_.rule.sink_frames();
  kept_window_ = capacity > 0 ? capacity - kept_sink_ : spec_.rule.window_frames();
}

int64_t Pipeline::window_chunks() const {
  const FrameOptions& rule = spec_.rule;
  const int64_t kept = (kept_window_ + rule.chunk - 1) / rule.chunk;
  return rule.window > 0 ? std::min(kept, rule.window) : kept;
}

ChainOptions Pipeline::chain_options() const {
  return {.device = device_,
          .dtype = parallel_.parameter_dtype(),
          .frames = generating_rule(spec_.rule),
          .token_multiple = parallel_.token_multiple(),
          .may_stop = parallel_.world() == 1,
          .mesh = parallel_.mesh(),
          .blank = true};
}

std::unique_ptr<Model> Pipeline::open_model(std::vector<const kinora_link*> links, AdapterOf expert) {
  const Component component = open("model");
  const Options& options = spec_.use("model").options;
  if (!spec_.loras.empty()) {
    loras_.push_back(std::make_unique<NamedLoras>(component, options, spec_.loras, expert,
                                                  parallel_.group("tp").size > 1));
    links.push_back(loras_.back()->get());
  }
  return std::make_unique<Model>(component, options, chain_options(), std::move(links));
}

void Pipeline::open_experts() {
  if (!spec_.has("model_2")) {
    experts_ = std::make_unique<Experts>(*model_);
  } else if (!spec_.has_resident_experts) {
    if (!loras_.empty())
      raise(KINORA_ERROR_UNSUPPORTED, "{}: loras need both experts in memory; leave out resident_experts = 1",
            spec_.name);
    experts_ = std::make_unique<Experts>(*model_, spec_.parts.at("model").weights,
                                         spec_.parts.at("model_2").weights, spec_.boundary);
  } else {
    low_ = open_model(parallel_.more_links(), AdapterOf::low);
    experts_ = std::make_unique<Experts>(*model_, *low_, spec_.boundary);
  }
}

void Pipeline::open_denoising() {
  open_experts();
  loss_ = std::make_unique<LossInstance>(open("loss"), spec_.use("loss").options);
  open_sampler();  // its options are checked before anything is loaded
  guided_ = std::make_unique<GuidedModel>(*experts_, model_spec_, signals_of(spec_.use("model").options),
                                          *loss_, parallel_.dtype(), spec_.seed, device_);
  guided_->share_branches(parallel_.group("cfg"));
  if (spec_.shares_timestep) guided_->share_timestep();
  if (records(model_spec_, spec_.cuda_graphs, parallel_.world()))
    if (const auto* cuda = cuda_library(device_)) guided_->replay_with(*cuda);
}

void Pipeline::load_model() {
  const WeightsPaths& weights = spec_.parts.at("model").weights;
  if (spec_.has("model_2") && speaks())
    log_info("{}: the expert for high noise is {}, the one below {} of the timesteps {}", spec_.name,
             weights.back().string(), spec_.boundary, spec_.parts.at("model_2").weights.back().string());
  model_->load(weights);
  if (low_) low_->load(spec_.parts.at("model_2").weights);
  const Exchange exchange(parallel_.group("world"), device_);
  if (!loras_.empty()) loras_[0]->load(*model_, exchange);
  if (low_ && !loras_.empty()) loras_[1]->load(*low_, exchange);
  if (!spec_.has("precision") || !speaks()) return;
  const auto other = other_precision(weights, spec_.use("precision"), model_->chain());
  if (!other.empty()) log_info("{}: {}", spec_.name, other);
}

void Pipeline::open_encoders() {
  if (spec_.text)
    text_ = std::make_unique<TextEncoder>(runtime_, *spec_.text, device_, parallel_.more_links("fsdp"));
  if (spec_.has("image_encoder"))
    image_ = std::make_unique<ImageEncoder>(runtime_, spec_.parts.at("image_encoder"),
                                            ChainOptions{.device = device_});
}

// Returns the shape that the model was trained on, or that of the requested size.
std::vector<int64_t> Pipeline::latent_shape() {
  LatentFacts& facts = spec_.latents;
  auto shape = shape_of_size(spec_.size);
  if (facts.scale.mean.empty()) {
    facts.scale.mean.assign(static_cast<size_t>(shape[0]), 0);
    facts.scale.std.assign(static_cast<size_t>(shape[0]), 1);
  }
  return shape;
}

std::vector<int64_t> Pipeline::shape_of_size(RequestedSize size) const {
  if (spec_.rule.teacher_forcing) size.frames = whole_frames(info_, size.frames);
  return core::latent_shape(info_, spec_.use("tokenizer").id, spec_.latents.shape, size);
}

std::vector<int64_t> Pipeline::shape_of(const Request& request) const {
  if (request.frames == 0 && request.height == 0 && request.width == 0) return shape_;
  if (makes_codes())
    raise(KINORA_ERROR_INVALID,
          "{}: this pipeline draws codes, whose size is the model's; leave out the size", spec_.name);
  const auto& model = spec_.use("model");
  require_divided("height", request.height, info_.height * patch_of(model, 1), model.id);
  require_divided("width", request.width, info_.width * patch_of(model, 2), model.id);
  const auto& size = spec_.size;
  return shape_of_size({request.frames > 0 ? request.frames : size.frames,
                        request.height > 0 ? request.height : size.height,
                        request.width > 0 ? request.width : size.width});
}

int64_t Pipeline::wanted_frames(const Request& request) const {
  if (!request.shots.empty()) return request.frames;
  return request.frames > 0 ? request.frames : spec_.size.frames;
}

// A model learns how far things move from one frame to the next.
void Pipeline::warn_of_rate() const {
  const double learnt = spec_.encoded_fps, result = spec_.fps;
  if (!spec_.is_trained || !speaks() || shape_[1] < 2 || result <= 0 ||
      std::abs(result - learnt) < 0.01 * learnt)
    return;
  log_warn(
      "{}: the model was trained on {:.4g} frames per second and the result has {:.4g}, so what it shows "
      "moves {:.2g} times as fast; encode clips of {:.4g}, or set fps = {:.4g}",
      spec_.name, learnt, result, result / learnt, result, learnt);
}

double Pipeline::fps(const Request& request) {
  if (request.fps > 0) return request.fps;
  const double its = known_rate() > 0 || request.video.empty() ? known_rate() : files_->rate(request.video);
  return its > 0 ? its : spec_.latents.fps;
}

int64_t Pipeline::weight_bytes() const {
  size_t out = 0;
  for (Network* one : std::initializer_list<Network*>{model_.get(), low_.get(), tokenizer_.get(),
                                                      text_ ? &text_->network() : nullptr,
                                                      image_ ? &image_->network() : nullptr})
    if (one)
      for (const auto& leaf : one->chain().leaves()) out += leaf.tensor.nbytes();
  return static_cast<int64_t>(out);
}

void Pipeline::use_lora(const LoraUse& lora) {
  turns_.require_mine();
  if (loras_.empty() && !lora.name.empty())
    raise(KINORA_ERROR_INVALID, "{}: this pipeline has no LoRA '{}'", spec_.name, lora.name);
  bool is_other = false;
  for (const auto& one : loras_) is_other = one->use(lora) || is_other;
  if (is_other && guided_) guided_->forget_replays();
}

std::unique_ptr<SamplerInstance> Pipeline::open_sampler(const Request& request) const {
  const Component component = open("sampler");
  if (request.steps == 0) return std::make_unique<SamplerInstance>(component, spec_.use("sampler").options);
  json options = spec_.use("sampler").options.values();
  if (!options.contains("steps"))
    raise(KINORA_ERROR_INVALID, "{}: {} has no option steps; leave the steps out", spec_.name,
          spec_.use("sampler").id);
  options["steps"] = request.steps;
  return std::make_unique<SamplerInstance>(component, or_throw(Options::make(*component.spec, options)));
}

void Pipeline::enter() {
  if (sessions_++ == 0 || parallel_.world() == 1) return;
  --sessions_;
  raise(KINORA_ERROR_UNSUPPORTED,
        "{}: {} ranks share this pipeline, and they make one video at a time; end the other session first",
        spec_.name, parallel_.world());
}

}  // namespace kinora::core::inference
