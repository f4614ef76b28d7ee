#include "plugins/jobs/distill/check_distill.hpp"

#include <ATen/ATen.h>

#include "core/torch/network/cache_instance.hpp"
#include "core/torch/network/instances.hpp"
#include "core/torch/tensors/torch_guard.hpp"
#include "plugins/jobs/distill/distill_task.hpp"
#include "plugins/jobs/inference/frames.hpp"
#include "plugins/jobs/inference/network_checks.hpp"
#include "plugins/jobs/inference/rules.hpp"
#include "plugins/jobs/training/sample_draws.hpp"
#include "plugins/jobs/training/training_checks.hpp"
#include "plugins/jobs/windows/encoded.hpp"

namespace kinora::core {
namespace {

// Rollouts are made on a cache.
void require_strategies(const JobView& job) {
  const std::string divided = why_sequences_are_divided(job);
  if (!divided.empty()) raise(KINORA_ERROR_UNSUPPORTED, "parallel: the {}", divided);
}

void require_student(const JobView& job, const JobSpec& train, const LossInstance& loss) {
  const TrainOptions o = options_of_student(job);
  if (!o.teacher_forcing)
    raise(KINORA_ERROR_INVALID,
          "input: job '{}' trains a model that makes a video at once, and self-forcing needs one that makes "
          "it chunk "
          "by chunk; set teacher_forcing = true there",
          train.name);
  if (!o.expert.empty())
    raise(KINORA_ERROR_UNSUPPORTED,
          "input: job '{}' trains the expert for {} noise alone, and a few-step student denoises from all "
          "levels to none; distill a model of one network",
          train.name, o.expert);
  if (o.shots > 1)
    raise(
        KINORA_ERROR_UNSUPPORTED,
        "input: job '{}' trains on shots = {}, and a rollout has one text and no cuts; distill a model that "
        "is trained on single clips (shots = 1 there)",
        train.name, o.shots);
  if (loss.mix() != KINORA_MIX_RECTIFIED_FLOW)
    raise(KINORA_ERROR_INVALID,
          "input: job '{}' trains on {}, and the few-step sampler needs a loss that blends; set loss = "
          "\"flow\" there",
          train.name, loss.spec().id);
}

void require_levels(const DistillOptions& o) {
  if (o.level_min >= o.level_max)
    raise(KINORA_ERROR_INVALID, "level_min = {} must be below level_max = {}", o.level_min, o.level_max);
}

void require_channels(const char* of, const std::string& model, const Options& its, int64_t channels) {
  if (its.values().value("in_channels", channels) != channels)
    raise(KINORA_ERROR_UNSUPPORTED,
          "{}: {} reads a picture or a mask among its channels, which distillation cannot give it yet; "
          "choose a model whose in_channels are the {} of the latent",
          of, model, channels);
}

void require_latents(const JobView& job, const Encoded& data, const ComponentSpec& model,
                     const Options& its) {
  if (data.of_codes() || data.sizes > 1)
    raise(KINORA_ERROR_UNSUPPORTED,
          "input: distillation needs latents of one size, and the encode job makes {}; {}",
          data.of_codes() ? "codes" : "several sizes",
          data.of_codes() ? "choose a tokenizer of latents" : "remove `sizes` there");
  require_levels(options_of_student(job), model, its, data.shape[1]);
  require_channels("input", model.id, its, data.shape[0]);
}

// The loss divides by the chunks that the student makes.
void require_chunks(const ComponentUse& loss, const FrameOptions& rule, int64_t frames) {
  const json& options = loss.options.values();
  if (options.value("normalizer", "") != "chunk") return;
  const int64_t chunk = options.value("chunk", int64_t{0}), first = rule.chunks().begin(1);
  if (chunk != rule.chunk || (first != 1 && first != chunk) || (frames - first) % chunk != 0)
    raise(
        KINORA_ERROR_INVALID,
        "loss: normalizer = \"chunk\" needs whole chunks of the model's length, of which the first may have "
        "one frame; the loss has chunk = {}, and the model makes {} latent frames in chunks of {}, the first "
        "of {}",
        chunk, frames, rule.chunk, first);
}

// Every window is a video for teacher and critic, and the student has positions for all of them.
void require_windows(const DistillOptions& o, const ComponentUse& model, const FrameOptions& rule,
                     int64_t frames) {
  if (o.video_windows == 1) return;
  if (o.window_overlap >= frames || o.window_overlap % rule.chunk != 0)
    raise(KINORA_ERROR_INVALID,
          "video_windows: window_overlap = {} must be whole chunks of {} and below the {} latent frames of a "
          "sample",
          o.window_overlap, rule.chunk, frames);
  if (frames % rule.chunk != 0 || rule.chunks().begin(1) != rule.chunk)
    raise(
        KINORA_ERROR_INVALID,
        "video_windows: a window has the {} latent frames of a sample, which are not whole chunks of {}, the "
        "first of {}; set `frames` of the encode job, or chunk and first_chunk of the train job, so that "
        "they are, or leave video_windows out",
        frames, rule.chunk, rule.chunks().begin(1));
  const json& its = model.options.values();
  const auto largest = its.value("max_size", std::vector<int64_t>());
  const int64_t whole = frames + (o.video_windows - 1) * (frames - o.window_overlap);
  if (its.value("learnable_pos_embed", json()) == true && !largest.empty() && whole > largest[0])
    raise(
        KINORA_ERROR_INVALID,
        "video_windows: the videos have {} latent frames, and {} has learnt {} positions in time (max_size); "
        "lower video_windows, or train with a larger max_size",
        whole, model.id, largest[0]);
}

// Rollouts see what the forward with gradients sees: no less, and at the same positions.
void require_cache(const JobView& job, const FrameOptions& rule) {
  const auto& use = *job.spec().component("cache");
  const Component component = job.open(use);
  const json options = cache_of_frames(rule, use.options.values());
  CacheInstance(component, or_throw(Options::make(*component.spec, options)));
  if (use.id == "cache/kv-fp8" || use.id == "cache/kv-nvfp4" ||
      options.value("store", "as given") != "as given")
    raise(KINORA_ERROR_INVALID,
          "cache: rollouts on rounded keys and values are not what the forward with gradients computes; set "
          "cache = \"kv\", without `store`");
  const auto number = [&](const char* name) { return options.value(name, int64_t{0}); };
  const int64_t sink = rule.sink_frames(), seen = rule.window == 0 ? 0 : sink + rule.window_frames();
  const bool is_less =
      number("capacity") > 0 && (seen == 0 || number("capacity") < seen || number("sink") < sink);
  if (number("window") > 0 || is_less || options.value("positions", "absolute") != "absolute")
    raise(KINORA_ERROR_INVALID,
          "cache: rollouts must see what the model was trained to see, at the same positions; leave window, "
          "capacity, sink and positions of the cache out");
}

// A rollout needs no latents, but the texts and sizes of stored samples.
void require_stored(const JobView& job) {
  if (job.need_upstream("encode").data)
    raise(KINORA_ERROR_UNSUPPORTED,
          "input: distillation reads the latents that an encode job has stored, and this one encodes while "
          "others train; give it clips instead of a table of data");
}

// A clean pass drops nothing, and the forward with gradients must compute what the rollout did.
void require_no_dropout(const LoraOptions& lora) {
  if (lora.dropout > 0)
    raise(
        KINORA_ERROR_UNSUPPORTED,
        "lora: dropout = {} would make the forward with gradients another one than the rollout; leave it out",
        lora.dropout);
}

std::optional<LoraOptions> check_lora(JobCheck& check, const DistillOptions& o, const ComponentUse& use) {
  std::optional<LoraOptions> lora;
  const char* option = o.adapter.empty() ? "lora" : "adapter";
  std::error_code ignored;
  const bool can_read = check.finds("adapter", o.adapter) && std::filesystem::exists(o.adapter, ignored);
  if (!can_read && o.lora.empty()) return lora;
  if (check.holds(option, [&] { lora = lora_of(o.lora, o.adapter); }) && lora)
    check.holds(option, [&] {
      require_no_dropout(*lora);
      on_meta<Model>(check, use, lora);
    });
  return lora;
}

// A job that continues another one's adapter needs its settings, and the base that it was trained on.
void require_continued(const DistillOptions& o, const JobSpec& before) {
  const auto its = [&](const char* option) { return before.options.at(option).get<std::string>(); };
  if (its("method") == "dmd")
    raise(
        KINORA_ERROR_INVALID,
        "input: job '{}' is a dmd job, which nothing continues; name a job of method ode or consistency, or "
        "raise its steps",
        before.name);
  const bool shares = !(o.lora.empty() && o.adapter.empty());
  if (shares && (o.lora != its("lora") || o.adapter != its("adapter")))
    raise(KINORA_ERROR_INVALID,
          "lora: job '{}', which this one continues, has other adapters; give both the same lora or adapter",
          before.name);
}

void check_method(JobCheck& check, const DistillOptions& o) {
  if (const JobSpec* before = distilled_before(check))
    check.holds("input", [&] { require_continued(o, *before); });
  if (o.method == "ode" && o.pairs < o.batch)
    check.problem("pairs", fmt::format("pairs = {} must be at least batch = {}", o.pairs, o.batch));
  const bool has_teacher = check.spec().component("teacher") != nullptr;
  if (o.method != "dmd") {
    if (o.scores != "causal" || has_teacher)
      check.problem(
          has_teacher ? "teacher" : "scores",
          "only method = \"dmd\" has scores and a teacher of another architecture; leave both options out");
    if (!o.critic_weights.empty())
      check.problem("critic_weights", "critic_weights: only method = \"dmd\" has a critic; leave it out");
    if (o.video_windows > 1)
      check.problem("video_windows", "video_windows: only method = \"dmd\" makes videos; leave it out");
    return;
  }
  if (o.scores == "bidirectional" && (o.teacher_weights.empty() || o.critic_weights.empty()))
    check.problem(
        "scores",
        "scores = \"bidirectional\" needs networks that were trained without chunks, and the train job's "
        "model is not; set teacher_weights and critic_weights");
  check.holds("level_min", [&] { require_levels(o); });
  if (o.video_windows == 1 && o.window_overlap > 0)
    check.problem(
        "window_overlap",
        "window_overlap: only videos of several windows overlap; set video_windows, or leave it out");
  if (o.video_windows > 1 && o.reuse_rollouts)
    check.problem("reuse_rollouts",
                  "reuse_rollouts: with video_windows student and critic each continue videos of their own; "
                  "leave one of the two out");
  if (o.every > o.steps)
    check.problem("every",
                  fmt::format("every = {}: the student is never updated in {} steps; raise steps, or lower "
                              "every",
                              o.every, o.steps));
}

// The teacher's or critic's option, of weights, or of an adapter where all share the student's base.
void check_another(JobCheck& check, const std::string& option, const WeightsPaths& own,
                   const ComponentUse& use, Model& model, bool shares) {
  if (!shares) {
    check_weights(check, option, use);
    return check_fit(check, option, model, own);
  }
  std::error_code ignored;
  if (own.empty() || (own.size() == 1 && !check.finds(option, own[0].string()))) return;
  if (own.size() > 1 || (std::filesystem::exists(own[0], ignored) && !is_adapter(own[0])))
    check.problem(option, option +
                              ": with lora all networks share the weights of the student; give one adapter, "
                              "or leave lora out");
}

// A teacher of another architecture has weights of its own, also with lora.
void check_teacher(JobCheck& check, const DistillOptions& o, const ComponentUse& use) {
  if (o.teacher_weights.empty())
    return check.problem("teacher", "teacher: set its weights: teacher_weights = \"FILE or FOLDER\"");
  check_weights(check, "teacher_weights", use);
  if (const auto model = check.made("teacher", [&] { return on_meta<Model>(check, use); }))
    check_fit(check, "teacher_weights", **model, o.teacher_weights);
}

void check_networks(JobCheck& check, const DistillOptions& o, const ComponentUse& use) {
  const auto lora = check_lora(check, o, use);
  const ComponentUse* teacher = check.spec().component("teacher");
  if (teacher) check_teacher(check, o, *teacher);
  const auto model = check.made("input", [&] { return on_meta<Model>(check, use); });
  if (model) {
    check_fit(check, "weights", **model, o.weights);
    const bool shares = !(o.lora.empty() && o.adapter.empty());
    if (!teacher) check_another(check, "teacher_weights", o.teacher_weights, use, **model, shares);
    check_another(check, "critic_weights", o.critic_weights, use, **model, shares);
  }
  check_layout(check, model ? &use : nullptr, lora, o.accumulate);
}

}  // namespace

void check_distill(JobCheck& check) {
  const auto o = check.options<DistillOptions>();
  const JobSpec* train = check.upstream("train");
  if (!train)
    return check.problem("input", "distill needs the train job whose model it makes faster; add it to input");
  if (!check_single_networks(check)) return;
  const auto& use = *train->component("model");
  check_training(check, o, use);
  check.holds("parallel", [&] { require_strategies(check); });
  check_method(check, o);
  const auto& id = check.spec().component("sampler")->id;
  if (id != kFreshNoise && id != "sampler/flow-euler" && id != "sampler/unipc")
    check.problem("sampler",
                  "rollouts cannot be made by " + id +
                      "; set sampler = { use = \"flow-renoise\", timesteps = [...] }, or flow-euler or unipc "
                      "with few steps");
  check.made("loss", [&] {
    const auto& loss = *check.spec().component("loss");
    if (loss.id != "loss/dmd")
      raise(KINORA_ERROR_INVALID, "loss: {} compares no scores; set loss = \"dmd\"", loss.id);
    return LossInstance(check.open(loss), loss.options).mix();
  });
  const auto& its = *train->component("loss");
  const bool is_student = check.holds(
      "input", [&] { require_student(check, *train, LossInstance(check.open(its), its.options)); });
  check_networks(check, o, use);
  if (!check.holds("input", [&] { require_stored(check); })) return;
  const auto data = is_student ? encoded_for(check) : std::nullopt;
  const auto& spec = *or_throw(check.runtime().registry().find("model", use.id));
  if (is_student) check.holds("cache", [&] { require_cache(check, options_of_student(check)); });
  if (data)
    check.holds("loss", [&] {
      require_chunks(*check.spec().component("loss"), options_of_student(check), data->shape[1]);
    });
  if (data)
    check.holds("video_windows", [&] { require_windows(o, use, options_of_student(check), data->shape[1]); });
  if (data) check.holds("input", [&] { require_latents(check, *data, spec, use.options); });
  const ComponentUse* teacher = check.spec().component("teacher");
  if (data && teacher)
    check.holds("teacher",
                [&] { require_channels("teacher", teacher->id, teacher->options, data->shape[0]); });
}

}  // namespace kinora::core
