#include "plugins/jobs/training/generating/generator.hpp"

#include <ATen/ATen.h>
#include <fmt/ranges.h>

#include "core/base/log.hpp"
#include "core/torch/context/instances.hpp"
#include "core/torch/media/streaming.hpp"
#include "core/torch/tensors/device.hpp"
#include "core/torch/tensors/noise.hpp"
#include "core/torch/tensors/torch_guard.hpp"
#include "kinora/aten.hpp"
#include "plugins/jobs/training/generating/rules.hpp"
#include "plugins/jobs/training/generating/trained_precision.hpp"
#include "plugins/jobs/training/generating/wishes.hpp"
#include "plugins/jobs/training/media/clips.hpp"
#include "plugins/jobs/training/options/training.hpp"

namespace kinora::core {
namespace {

// A train job's model keeps the frame rule it was trained with.
FrameOptions frames_of(const JobView& job, const GenerateOptions& o) {
  const JobSpec* train = job.spec().component("model") ? nullptr : job.upstream("train");
  if (!train) return o;
  return JobView(job.runtime(), job.run(), *train).options<TrainOptions>();
}

}  // namespace

Generator::Denoising::Denoising(JobContext& context, Experts& experts, const ComponentSpec& spec,
                                const Options& options, at::ScalarType stream, at::Device device)
    : loss(context.open(loss_of(context)), loss_of(context).options),
      sampler(context.open_slot("sampler"), context.spec().component("sampler")->options),
      guided(experts, spec, signals_of(options), loss, stream, static_cast<uint64_t>(context.run().seed),
             device) {}

Generator::Generator(JobContext& context, const GenerateOptions& options)
    : context_(context),
      options_(options),
      model_part_(part_of(context, "model", "weights", "train")),
      tokenizer_part_(part_of(context, "tokenizer", "tokenizer_weights", "train-tokenizer")),
      rule_(frames_of(context, options)),
      two_(two_experts(context, model_part_)),
      spec_(*context.open(*model_part_.use).spec),
      device_(NextToken::is_for(spec_) ? at::Device(at::kCPU) : device_of(options.device)),
      facts_(read_facts()),
      parallel_(context),
      tokenizer_(open_part(context, tokenizer_part_, {.device = device_})),
      shape_(latent_shape()),
      given_(context, shape_[2] * tokenizer_->info().height, shape_[3] * tokenizer_->info().width,
             known_rate(), parallel_.of_sample().rank == 0),
      cache_(open_cache()),
      model_(context.open(*model_part_.use), model_part_.use->options,
             {.device = device_,
              .dtype = parallel_.parameter_dtype(),
              .frames = generating_rule(rule_),
              .token_multiple = parallel_.token_multiple(),
              .may_stop = parallel_.world() == 1,
              .mesh = parallel_.mesh(),
              .blank = true},
             links()) {
  require_one_kind(spec_, tokenizer_part_.use->id, tokenizer_->info().discrete != 0);
  of_codes() ? open_next_token() : open_denoising();
  load_model();
  const auto other =
      other_precision(model_part_.weights, *context.spec().component("precision"), model_.chain());
  if (!other.empty() && parallel_.rank() == 0) log_info("{}: {}", context.spec().name, other);
  if (const JobSpec* source = source_of(context, "text"); source && takes("text"))
    text_ = std::make_unique<TextEncoder>(context, *source, device_, parallel_.more_links("fsdp"));
  if (const JobSpec* source = source_of(context, "image_encoder"); source && takes("image"))
    image_ = std::make_unique<ImageEncoder>(context, *source, ChainOptions{.device = device_});
}

void Generator::open_experts() {
  if (!two_) {
    experts_ = std::make_unique<Experts>(model_);
  } else if (options_.resident_experts == 1) {
    experts_ = std::make_unique<Experts>(model_, model_part_.weights, two_->low, two_->boundary);
  } else {
    low_ = std::make_unique<Network>(context_.open(*model_part_.use), model_part_.use->options,
                                     ChainOptions{.device = device_,
                                                  .dtype = parallel_.parameter_dtype(),
                                                  .frames = generating_rule(rule_),
                                                  .token_multiple = parallel_.token_multiple(),
                                                  .may_stop = parallel_.world() == 1,
                                                  .mesh = parallel_.mesh(),
                                                  .blank = true},
                                     parallel_.more_links());
    experts_ = std::make_unique<Experts>(model_, *low_, two_->boundary);
  }
}

void Generator::load_model() {
  if (two_ && parallel_.rank() == 0)
    log_info("{}: the expert for high noise is {}, the one below {} of the timesteps {}",
             context_.spec().name, model_part_.weights.back().string(), two_->boundary,
             two_->low.back().string());
  model_.load(model_part_.weights);
  if (low_) low_->load(two_->low);
}

std::map<std::string, Part> Generator::parts() const {
  std::map<std::string, Part> out{{"model", model_part_}, {"tokenizer", tokenizer_part_}};
  if (two_) out["model_2"] = {model_part_.use, two_->low};
  for (const char* slot : {of_codes() ? "cache" : "sampler", "precision"})
    if (const auto* use = context_.spec().component(slot)) out[slot] = {use, {}};
  if (!of_codes()) out["loss"] = {&loss_of(context_), {}};
  const auto encoder = [&](const char* slot, const char* weights) {
    const JobSpec* source = source_of(context_, slot);
    out[slot] = {source->component(slot), weights_in(source->options, weights)};
    return source;
  };
  if (text_) out["words"] = {encoder("text", "text_weights")->component("words"), {}};
  if (image_) encoder("image_encoder", "image_encoder_weights");
  return out;
}

void Generator::open_denoising() {
  open_experts();
  denoising_ = std::make_unique<Denoising>(context_, *experts_, spec_, model_part_.use->options,
                                           parallel_.dtype(), device_);
  denoising_->guided.share_branches(parallel_.group("cfg"));
  if (options_.condition_timestep == "shared") denoising_->guided.share_timestep();
  if (options_.cuda_graphs && parallel_.world() == 1)  // transfers between ranks cannot be recorded
    if (const auto* cuda = cuda_library(device_)) denoising_->guided.replay_with(*cuda);
}

void Generator::open_next_token() {
  NextToken::require_alone(model_part_.use->id, parallel_.of_sample().size);
  next_token_ = std::make_unique<NextToken>(
      model_, spec_, *cache_, std::array{shape_[1], shape_[2], shape_[3]}, tokenizer_->info().codes,
      TokenSampling{options_.temperature, options_.top_k, options_.top_p}, guidance(options_.guidance),
      static_cast<uint64_t>(context_.run().seed));
}

bool Generator::takes(const std::string& input) const {
  return std::any_of(spec_.inputs.begin(), spec_.inputs.end(),
                     [&](const auto& i) { return i.name == input; });
}

// Allocates the whole video at the start, so that there are never two copies.
std::unique_ptr<CacheInstance> Generator::open_cache() {
  if (!NextToken::is_for(spec_)) return nullptr;
  return std::make_unique<CacheInstance>(context_.open_slot("cache"),
                                         context_.spec().component("cache")->options,
                                         shape_[1] * shape_[2] * shape_[3]);
}

std::vector<const kinora_link*> Generator::links() const {
  auto out = parallel_.links();
  if (cache_) out.push_back(cache_->link());
  return out;
}

at::Tensor Generator::decode(const at::Tensor& latent) {
  return decode_together(*tokenizer_, latent, device_, parallel_.of_sample());
}

LatentFacts Generator::read_facts() const {
  if (const JobSpec* encode = context_.upstream("encode"))
    return LatentFacts::of_folder(context_.folder_of(*encode));
  LatentFacts facts;
  facts.scale.sigma_data = options_.sigma_data;
  return facts;
}

// [C, t, h, w]: as in training, or from the requested size.
std::vector<int64_t> Generator::latent_shape() {
  const auto shape = core::latent_shape(tokenizer_->info(), tokenizer_part_.use->id, facts_.shape, options_);
  if (facts_.scale.mean.empty()) {
    facts_.scale.mean.assign(static_cast<size_t>(shape[0]), 0);
    facts_.scale.std.assign(static_cast<size_t>(shape[0]), 1);
  }
  return shape;
}

Guidance Generator::guidance(double scale) const {
  Guidance out = options_.guidance_convention == "nemo" ? Guidance::nemo(scale) : Guidance{.scale = scale};
  if (!options_.guidance_interval.empty()) {
    out.from = options_.guidance_interval[0];
    out.to = options_.guidance_interval[1];
  }
  out.batched = options_.batch_guidance;
  return out;
}

double Generator::known_rate() const {
  if (options_.fps > 0) return options_.fps;
  return context_.upstream("encode") ? facts_.fps : 0;
}

double Generator::fps(const Wish& wish) {
  const double its = known_rate() > 0 || wish.video.empty() ? known_rate() : given_.rate(wish.video);
  return its > 0 ? its : facts_.fps;
}

int64_t Generator::frames() const { return 1 + (shape_[1] - 1) * tokenizer_->info().time; }

at::Tensor Generator::encoded(const at::Tensor& pixels) {
  const at::Tensor latent = encode_video(*tokenizer_, pixels.size(0), [&](int64_t first, int64_t n) {
    return video_of(pixels, first, n).to(device_);
  });
  return of_codes() ? latent.to(at::kLong) : facts_.scale.normalise(latent.to(at::kFloat));
}

at::Tensor Generator::continued(const std::filesystem::path& video) {
  return given_.continued(video, frames(), tokenizer_->info().time);
}

void Generator::give_text(const Wish& wish, Conditions& with, Conditions& none) {
  if (!text_) return;
  const auto whose = [&](const char* what) { return fmt::format("{} of video {:03}", what, wish.number); };
  const at::Tensor text = (*text_)(wish.prompt, whose("the prompt")).unsqueeze(0);
  const JobSpec* encode = context_.upstream("encode");  // which says what the training saw
  const bool encodes = options_.encode_negative || (encode && encode->options.at("encode_empty").get<bool>());
  const at::Tensor negative = wish.negative.empty() && !encodes
                                  ? at::zeros_like(text)
                                  : (*text_)(wish.negative, whose("the negative prompt")).unsqueeze(0);
  for (const auto& [to, tokens] : {std::pair{&with, text}, std::pair{&none, negative}}) {
    (*to)["text"] = tokens;
    if (takes("text_mask")) (*to)["text_mask"] = at::ones({1, tokens.size(1)}, at::kBool);
  }
}

void Generator::give_image(const Wish& wish, Conditions& with, Conditions& none) {
  if (!image_ || (wish.image.empty() && wish.video.empty())) return;
  const auto tokens = [&](const at::Tensor& frames) { return (*image_)(frames[0]).unsqueeze(0); };
  at::Tensor image = tokens(wish.image.empty() ? first_frame_of(wish.video) : given_.picture(wish.image));
  if (!options_.last_image.empty()) image = at::cat({image, tokens(given_.picture(options_.last_image))}, 1);
  with["image"] = none["image"] = image;
}

// The frame that the result begins with, or is to resemble.
at::Tensor Generator::first_frame_of(const std::filesystem::path& video) {
  const at::Tensor begins = options_.strength == 1 ? continued(video) : at::Tensor();
  return begins.defined() ? begins : given_.video(video, 0, 1);
}

void Generator::give_signals(const Wish& wish, Conditions& with, Conditions& none) {
  for (const auto& [name, values] : wish.signals) {
    require_signal(spec_, model_part_.use->options, name);
    const at::Tensor value = at::tensor(values, at::kFloat);
    with[name] = none[name] = values.size() == 1 ? value : value.unsqueeze(0);
  }
}

ToldBy Generator::told() const {
  return told_by(spec_, model_part_.use->options.values().value("in_channels", shape_[0]), shape_[0],
                 tokenizer_->info().time + shape_[0]);
}

at::Tensor Generator::begins_with(const Wish& wish) {
  if (!wish.image.empty()) return encoded(given_.picture(wish.image));
  if (wish.video.empty() || options_.strength != 1) return {};
  const at::Tensor frames = continued(wish.video);
  return frames.defined() ? encoded(frames) : at::Tensor();
}

std::optional<FrameCondition> Generator::given_frames(const Wish& wish) {
  if (!wish.image.empty() && told() == ToldBy::channels) return std::nullopt;
  const at::Tensor given = begins_with(wish);
  if (!given.defined()) return std::nullopt;
  return FrameCondition(given, denoising_->loss.mix(), options_.condition_sigma);
}

// A model with a mask among its channels always receives it, even if no frame is given.
void Generator::give_channels(const std::optional<FrameCondition>& given, const Wish& wish,
                              Conditions& both) {
  if (told() == ToldBy::mask)
    both["condition_mask"] =
        given ? given->mask(shape_[1]) : at::zeros({1, 1, shape_[1], shape_[2], shape_[3]});
  if (told() != ToldBy::channels) return;
  if (wish.image.empty())
    throw Error(KINORA_ERROR_INVALID, model_part_.use->id + " makes videos from a picture; set image");
  both["condition"] = channels_of_image(wish);
}

at::Tensor Generator::channels_of_image(const Wish& wish) {
  const auto picture = [&](const std::filesystem::path& file) {
    return video_of(given_.picture(file), 0, 1).to(device_);
  };
  FramesOf video = followed_by_grey(picture(wish.image));
  const bool ends = !options_.last_image.empty();
  if (ends) video = ended_by(video, frames(), picture(options_.last_image));
  const at::Tensor latent = encode_video(*tokenizer_, frames(), video);
  return masked_picture(facts_.scale.normalise(latent.to(at::kFloat)), tokenizer_->info().time, ends);
}

std::pair<at::Tensor, int64_t> Generator::beginning(const Wish& wish) {
  const at::Tensor like = at::empty({1, shape_[0], shape_[1], shape_[2], shape_[3]}, at::kDouble);
  const at::Tensor noise = options_.noise.empty()
                               ? sample_noise(like, wish.seed, wish.number, "generate.noise")
                               : given_noise(options_.noise, wish.number, shape_);
  if (wish.video.empty() || options_.strength == 1) return {noise, 0};
  const auto levels = denoising_->sampler.levels();
  const auto steps = static_cast<double>(levels.size() - 1);
  const auto first = std::clamp<int64_t>(std::llround((1 - options_.strength) * steps), 1,
                                         static_cast<int64_t>(levels.size()) - 2);
  const double level = levels.at(static_cast<size_t>(first));
  const at::Tensor clean = encoded(given_.video(wish.video, 0, frames())).to(at::kDouble);
  const double keep = denoising_->sampler.mix() == KINORA_MIX_RECTIFIED_FLOW ? 1 - level : 1;
  return {keep * clean + level * noise, first};
}

void Generator::look(int64_t step, const at::Tensor& x0, const Preview& preview) {
  if (!preview || options_.preview_every == 0 || step % options_.preview_every != 0) return;
  const at::Tensor frame = facts_.scale.denormalise(x0.narrow(2, 0, 1).to(at::kFloat));
  preview(step, decode(frame));
}

Generator::Made Generator::make(const Wish& wish, Progress& progress, const Preview& preview) {
  return of_codes() ? decoded(wish, progress) : denoised(wish, progress, preview);
}

Generator::Made Generator::decoded(const Wish& wish, Progress& progress) {
  Conditions with, none;
  give_text(wish, with, none);
  give_signals(wish, with, none);
  const at::Tensor given = begins_with(wish);
  const at::Tensor codes = (*next_token_)(with, none, given, wish.seed, wish.number, progress);
  const int64_t drawn = codes.numel() - (given.defined() ? given.numel() : 0);
  Made made;
  made.latent = codes;
  made.nfe = made.steps = drawn;
  made.model_calls = next_token_->calls();
  made.cache_bytes = cache_->bytes();
  made.cache_tokens = cache_->tokens();
  cache_->reset();  // the tokenizer needs the memory
  made.frames = decode(codes);
  return made;
}

Generator::Made Generator::denoised(const Wish& wish, Progress& progress, const Preview& preview) {
  Conditions with, none;
  give_text(wish, with, none);
  give_image(wish, with, none);
  give_signals(wish, with, none);
  const auto given = given_frames(wish);
  give_channels(given, wish, with);
  give_channels(given, wish, none);
  const auto [start, first] = beginning(wish);
  const Call call{wish.seed, wish.number, &progress,
                  [&](int64_t step, kinora_tensor x0) { look(step, borrow<at::Tensor>(x0), preview); }};
  Made made;
  const at::Tensor latent = roll_out(
      rollout_of(rule_, denoising_->loss, options_.condition_sigma), start, given,
      [&, first = first](const at::Tensor& noise, const FrameCondition* before) {
        const int64_t frames = noise.size(2);
        return sampled({of_first_frames(with, frames, before), of_first_frames(none, frames, before)}, noise,
                       before, first, call, made);
      });
  made.latent = facts_.scale.denormalise(latent.to(at::kFloat));
  made.frames = decode(made.latent);
  return made;
}

at::Tensor Generator::sampled(const std::array<Conditions, 2>& conditions, const at::Tensor& start,
                              const FrameCondition* given, int64_t first, Call call, Made& made) {
  GuidedModel& guided = denoising_->guided;
  const SamplerInstance& sampler = denoising_->sampler;
  const double low = options_.guidance_2 < 0 ? options_.guidance : options_.guidance_2;
  guided.ask(conditions[0], conditions[1], {guidance(options_.guidance), guidance(low)});
  int64_t call_number = 0;
  FunctionDenoiser denoiser([&](const at::Tensor& x, const at::Tensor& sigma) {
    const Mixed in = remixed({x, sigma}, sampler.mix(), denoising_->loss.mix());
    const auto ask = [&](const at::Tensor& a, const at::Tensor& b) { return guided(a, b); };
    at::Tensor x0 = given ? (*given)(in.x, in.sigma, ask) : guided(in.x, in.sigma);
    require_finite(x0,
                   fmt::format("{}: the latent of video {:03} in denoiser call {}", spec_.id,
                               call.first_sample, ++call_number),
                   model_part_.weights);
    return x0;
  });
  kinora_denoiser abi = denoiser.abi();
  abi.first = first;
  const at::Tensor latent = sampler.sample(abi, start, run_of(call));
  made.nfe += denoiser.calls();
  made.model_calls += guided.calls();
  made.steps += static_cast<int64_t>(sampler.levels().size()) - 1 - first;
  return latent;
}

}  // namespace kinora::core
