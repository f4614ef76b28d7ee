#include "plugins/jobs/training/sample_draws.hpp"

#include <algorithm>

#include <ATen/ATen.h>

#include "core/torch/tensors/noise.hpp"
#include "core/torch/tensors/torch_guard.hpp"
#include "plugins/jobs/inference/frames.hpp"
#include "plugins/jobs/inference/shots.hpp"

namespace kinora::core {
namespace {

std::string levels_of(const TrainOptions& o) {
  if (o.levels != "auto") return o.levels;
  return o.teacher_forcing ? "chunk" : "sample";
}

// each = 0: all frames of a sample.
Chunks frames_of_level(const TrainOptions& o) {
  const std::string of = levels_of(o);
  return of == "sample" ? Chunks{0} : of == "chunk" ? o.chunks() : Chunks{1};
}

// Latent frames in a token: the options patch_size [time, rows, columns] or patch_time of a model; 1 without them.
int64_t frames_of_token(const Options& model) {
  const auto patch = model.values().value("patch_size", json());
  if (patch.is_array() && patch.size() == 3) return patch[0];
  return model.values().value("patch_time", int64_t{1});
}

// Whether one of the input's shapes is [B, F], or [B, T] in the ABI's words (abi/model.h).
bool has_frames(const TensorSpec& timestep) {
  const auto shapes = timestep.shapes();
  return std::any_of(shapes.begin(), shapes.end(), [](const auto& axes) {
    return axes.size() == 2 && axes[0] == "B" && (axes[1] == "F" || axes[1] == "T");
  });
}

}  // namespace

void LevelDraw::require(const TrainOptions& o, const LossInstance& loss) {
  require_frames(o);
  if (!loss.draws_noise() && (o.in_chunks() || o.levels != "auto"))
    raise(KINORA_ERROR_INVALID,
          "{}: {} draws no noise, and its model always sees earlier codes as they are; leave it out",
          o.teacher_forcing ? "teacher_forcing"
          : o.causal        ? "causal"
                            : "levels",
          loss.spec().id);
  if (o.levels == "chunk" && !o.in_chunks())
    raise(
        KINORA_ERROR_INVALID,
        "levels = \"chunk\" applies to causal frames; add causal = true or teacher_forcing = true, or choose "
        "\"frame\"");
  if (o.teacher_forcing && !o.condition_frames.empty())
    raise(
        KINORA_ERROR_INVALID,
        "teacher_forcing already gives every chunk the clean chunks before it; leave condition_frames empty");
}

LevelDraw::LevelDraw(const TrainOptions& o, const LossInstance& loss, uint64_t seed)
    : loss_(loss), levels_(frames_of_level(o)), seed_(seed) {
  require(o, loss);
}

at::Tensor LevelDraw::operator()(int64_t first, int64_t count, int64_t frames, const std::string& key) const {
  if (levels_.each == 0) return loss_.level(sample_uniform({count}, seed_, first, key));
  std::vector<int64_t> of;  // the level of each frame
  for (int64_t f = 0; f < frames; ++f) of.push_back(levels_.of(f));
  return loss_.level(sample_uniform({count, of.back() + 1}, seed_, first, key))
      .index_select(1, at::tensor(of, at::kLong));
}

bool require_levels(const TrainOptions& o, const ComponentSpec& model, const Options& its, int64_t frames) {
  if (!o.teacher_forcing && frames_of_level(o).each == 0) return false;
  const char* otherwise = o.teacher_forcing ? "leave teacher_forcing out" : "levels = \"sample\"";
  const auto timestep = std::find_if(model.inputs.begin(), model.inputs.end(),
                                     [](const auto& in) { return in.name == "timestep"; });
  if (timestep == model.inputs.end() || !has_frames(*timestep))
    raise(KINORA_ERROR_INVALID,
          "{} does not take one noise level per frame (its input `timestep` is {}); choose one that does, "
          "such as dit, "
          "cosmos or wan, or {}",
          model.id, timestep == model.inputs.end() ? "missing" : timestep->shape, otherwise);
  if (const int64_t each = frames_of_token(its); each > 1)
    raise(
        KINORA_ERROR_INVALID,
        "{} makes a token of {} latent frames, which then share a noise level; set that to one frame, or {}",
        model.id, each, otherwise);
  if (o.teacher_forcing && o.chunks().begin(1) >= frames)
    raise(KINORA_ERROR_INVALID,
          "teacher_forcing: a chunk learns from earlier ones, but {} latent frames are one chunk of {}; "
          "lower {}, or encode longer windows",
          frames, o.chunks().begin(1), o.first_chunk > 0 ? "first_chunk" : "chunk");
  return true;
}

ShotCut cut_of(const TrainOptions& o) { return {o.shots, o.chunk}; }

Frames rule_of(const TrainOptions& o, const std::vector<int64_t>& latent) {
  const Frames rule = training_rule(o);
  if (o.shots == 1) return rule;
  const int64_t frames = latent.at(1);
  std::vector<Shot> shots(static_cast<size_t>(o.shots));
  for (Shot& shot : shots) shot.chunks = frames / o.shots / o.chunk;
  return ShotList(std::move(shots), shot_rule(o), 0, o.chunks(), 1).at(rule, 0, frames);
}

void require_shots(const TrainOptions& o, const Options& model) {
  if (o.shots == 1) return;
  if (!o.teacher_forcing)
    raise(KINORA_ERROR_INVALID,
          "shots: its samples are learnt chunk by chunk; add teacher_forcing = true, or leave shots out");
  if (o.first_chunk > 0)
    raise(KINORA_ERROR_INVALID, "shots: a shot has chunks of one length; leave first_chunk, or shots, out");
  if (o.sample_every > 0)
    raise(KINORA_ERROR_INVALID,
          "sample_every: its pictures have one prompt, and samples with shots = {} have several; leave "
          "sample_every out, and look at the videos of a generate job",
          o.shots);
  for (const auto& signal : model.values().value("signals", std::vector<std::string>()))
    if (signal.ends_with(":tokens"))
      raise(KINORA_ERROR_INVALID,
            "shots: the model reads its signal '{}' among the tokens of the text, which are of one shot "
            "each; leave it, or shots, out",
            signal);
}

namespace {

void require_rows(const TrainOptions& o, const LossInstance& loss, const ComponentSpec& model) {
  constexpr const char* kRows =
      "the encode job has windows of several sizes, which are trained as packed rows; ";
  const auto refuse_if = [&](bool is_set, const char* option) {
    if (is_set)
      raise(KINORA_ERROR_INVALID,
            "{}: {}leave {} out, set batches = \"buckets\", or remove `sizes` from the encode job", option,
            kRows, option);
  };
  refuse_if(o.teacher_forcing, "teacher_forcing");
  refuse_if(!o.condition_frames.empty(), "condition_frames");
  refuse_if(frames_of_level(o).each > 0, "levels");
  const auto takes = [&](const char* name) {
    return std::any_of(model.inputs.begin(), model.inputs.end(),
                       [&](const auto& in) { return in.name == name; });
  };
  if (!takes("sizes") || !loss.draws_noise())
    raise(KINORA_ERROR_INVALID,
          "model: {}but {} with {} takes none; choose a model with the input `sizes`, such as dit, and a "
          "loss that adds noise, or set batches = \"buckets\"",
          kRows, model.id, loss.spec().id);
}

void require_buckets(const TrainOptions& o, size_t sizes, int64_t data_ranks) {
  const auto n = static_cast<int64_t>(sizes);
  if (o.accumulate * data_ranks >= n) return;
  raise(KINORA_ERROR_INVALID,
        "batches = \"buckets\": {} sizes of windows need as many microbatches a step, and accumulate ({}) "
        "times the "
        "ranks that hold different samples ({}) is {}; accumulate = {} would do, or use batches = \"packed\"",
        n, o.accumulate, data_ranks, o.accumulate * data_ranks, (n + data_ranks - 1) / data_ranks);
}

}  // namespace

void require_window_sizes(const TrainOptions& o, const LossInstance& loss, const ComponentSpec& model,
                          size_t sizes, int64_t data_ranks) {
  if (sizes == 1 && o.are_buckets())
    raise(KINORA_ERROR_INVALID,
          "batches = \"buckets\" is for windows of several sizes, and those of the encode job have one; give "
          "it "
          "`sizes`, or leave batches out");
  if (sizes == 1) return;
  if (o.sample_every > 0)
    raise(KINORA_ERROR_INVALID,
          "sample_every: its pictures need samples of one size; leave sample_every out, or remove `sizes` "
          "from the "
          "encode job");
  if (o.are_buckets()) return require_buckets(o, sizes, data_ranks);
  require_rows(o, loss, model);
}

GivenDraw::GivenDraw(const TrainOptions& o, const LossInstance& loss, uint64_t seed)
    : frames_(o.condition_frames),
      sigma_(o.condition_sigma),
      noise_(o.condition_noise),
      shares_timestep_(o.condition_timestep == "shared"),
      mix_(loss.mix()),
      seed_(seed) {
  require(o, loss);
}

void GivenDraw::require(const TrainOptions& o, const LossInstance& loss) {
  const auto& frames = o.condition_frames;
  const auto& noise = o.condition_noise;
  if (!frames.empty() && !loss.draws_noise())
    raise(
        KINORA_ERROR_INVALID,
        "condition_frames: {} draws no noise, so every frame is already given to later ones; leave it empty",
        loss.spec().id);
  if (o.condition_timestep == "shared" && (o.levels == "chunk" || o.levels == "frame" || o.teacher_forcing))
    raise(
        KINORA_ERROR_INVALID,
        "condition_timestep = \"shared\": frames with levels of their own have no timestep in common; leave "
        "{} out",
        o.teacher_forcing ? "teacher_forcing" : "levels");
  if (frames.empty() && !noise.empty())
    raise(KINORA_ERROR_INVALID,
          "condition_noise applies to given frames; set their number: condition_frames = [0, 1]");
  if (!noise.empty() && (noise.size() != 2 || noise[1] < 0))
    raise(KINORA_ERROR_INVALID,
          "condition_noise requires a mean and a deviation of ln sigma, for example [-3.0, 2.0]");
}

Given GivenDraw::operator()(int64_t first, int64_t count, const std::string& key) const {
  if (frames_.empty()) return {};
  Given out;
  out.shares_timestep = shares_timestep_;
  const at::Tensor which = sample_uniform({count}, seed_, first, key + ".condition-frames");
  for (int64_t i = 0; i < count; ++i)
    out.frames.push_back(
        frames_[static_cast<size_t>(which[i].item<double>() * static_cast<double>(frames_.size()))]);
  out.level = at::full({count}, sigma_, at::kDouble);
  if (!noise_.empty()) {
    out.noisy = true;
    const at::Tensor u = sample_uniform({count}, seed_, first, key + ".condition-noise");
    out.level = (at::special_ndtri(u) * noise_[1] + noise_[0]).exp();
  }
  if (mix_ == KINORA_MIX_RECTIFIED_FLOW) out.level = out.level / (1 + out.level);
  return out;
}

Given GivenDraw::operator()(const std::vector<int64_t>& numbers) const {
  if (frames_.empty()) return {};
  Given out;
  out.shares_timestep = shares_timestep_;
  std::vector<at::Tensor> levels;
  for (const int64_t n : numbers) {
    const Given one = (*this)(n, 1);
    out.frames.push_back(one.frames[0]);
    out.noisy = one.noisy;
    levels.push_back(one.level);
  }
  out.level = at::cat(levels);
  return out;
}

}  // namespace kinora::core
