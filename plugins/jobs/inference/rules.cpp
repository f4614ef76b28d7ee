#include "plugins/jobs/inference/rules.hpp"

#include <set>

#include <fmt/ranges.h>

#include "core/torch/media/signals.hpp"
#include "core/torch/tensors/torch_guard.hpp"
#include "plugins/jobs/inference/next_token.hpp"

namespace kinora::core {

int64_t require_divided(const char* option, int64_t pixels, int64_t factor, const std::string& by) {
  if (pixels % factor == 0) return pixels / factor;
  const int64_t below = pixels - pixels % factor;
  raise(KINORA_ERROR_INVALID, "{} = {} must be a multiple of {} for {}; {} would do", option, pixels, factor,
        by, below > 0 ? fmt::format("{} or {}", below, below + factor) : fmt::to_string(factor));
}

// A causal tokenizer encodes the first frame alone, and then `time` frames to one: 1 + n * time frames give 1
// + n latent frames. Rows and columns divide evenly.
int64_t latent_frames(const kinora_tokenizer_info& info, const std::string& tokenizer, int64_t frames) {
  if ((frames - 1) % info.time == 0) return 1 + (frames - 1) / info.time;
  const int64_t below = frames - (frames - 1) % info.time;
  raise(KINORA_ERROR_INVALID, "frames = {} must be 1 + n * {} for {}; {} or {} would do", frames, info.time,
        tokenizer, below, below + info.time);
}
int64_t whole_frames(const kinora_tokenizer_info& info, int64_t frames) {
  return frames == 0 ? 0 : 1 + (frames - 1 + info.time - 1) / info.time * info.time;
}

int64_t latent_rows(const kinora_tokenizer_info& info, const std::string& tokenizer, int64_t height) {
  return require_divided("height", height, info.height, tokenizer);
}
int64_t latent_columns(const kinora_tokenizer_info& info, const std::string& tokenizer, int64_t width) {
  return require_divided("width", width, info.width, tokenizer);
}

int64_t patch_of(const ComponentUse& model, size_t dimension) {
  const json& options = model.options.values();
  const json sizes = options.value("patch_size", json());
  const json size =
      sizes.is_array() && sizes.size() == 3 ? sizes[dimension] : options.value("patch_space", json());
  return size.is_number_integer() ? std::max<int64_t>(size.get<int64_t>(), 1) : 1;
}

std::vector<int64_t> latent_shape(const kinora_tokenizer_info& info, const std::string& tokenizer,
                                  std::vector<int64_t> shape, const RequestedSize& o) {
  // Codes have no channel: [t, h, w]. A size of 0 is unknown.
  if (shape.empty()) shape = {info.channels, 0, 0, 0};
  if (shape.size() == 3) shape.insert(shape.begin(), 1);
  if (o.frames > 0) shape[1] = latent_frames(info, tokenizer, o.frames);
  if (o.height > 0) shape[2] = latent_rows(info, tokenizer, o.height);
  if (o.width > 0) shape[3] = latent_columns(info, tokenizer, o.width);
  if (shape[1] * shape[2] * shape[3] == 0)
    raise(KINORA_ERROR_INVALID, "no earlier encode job supplies the size; set frames, height and width");
  return shape;
}

void require_condition_frames(const kinora_tokenizer_info& info, const std::string& tokenizer, int64_t frames,
                              const std::vector<int64_t>& latent) {
  if (frames < 0 && latent[1] > 1) return;  // fewer than all, whatever the video
  const int64_t over = (frames - 1) % info.time;
  if (frames > 0 && over != 0)
    raise(KINORA_ERROR_INVALID, "condition_frames = {} must be 1 + n * {} for {}; {} or {} would do", frames,
          info.time, tokenizer, frames - over, frames - over + info.time);
  const int64_t given = frames == 0 ? 0 : 1 + (frames - 1) / info.time;
  if (given >= latent[1])
    raise(KINORA_ERROR_INVALID,
          "condition_frames = {} are {} of {} latent frames, so none is left to generate; make a longer "
          "video",
          frames, given, latent[1]);
}

const ComponentUse& loss_of(const JobView& job) {
  if (const auto* own = job.spec().component("loss")) return *own;
  if (job.spec().component("model"))
    raise(KINORA_ERROR_INVALID,
          "the job has its own model; set the loss it was trained on: loss = \"edm\" or \"flow\"");
  return *job.need_upstream("train").component("loss");
}

const JobSpec* source_of(const JobView& job, const char* slot) {
  if (job.spec().component(slot)) return &job.spec();
  const JobSpec* encode = job.upstream("encode");
  return encode && encode->component(slot) ? encode : nullptr;
}

bool is_trained_with_frames(const JobSpec& train) {
  const auto given = train.options.at("condition_frames").get<std::vector<int64_t>>();
  return train.options.at("teacher_forcing").get<bool>() ||
         std::any_of(given.begin(), given.end(), [](int64_t n) { return n > 0; });
}

std::string why_sequences_are_divided(const JobView& job) {
  static const std::set<std::string> kWhole{
      "parallel/single", "parallel/ddp",        "parallel/fsdp",        "parallel/tp",
      "parallel/cfg",    "parallel/cp-ulysses", "parallel/balanced-sp", "parallel/recompute"};
  for (const auto* use : job.spec().list("parallel"))
    if (!kWhole.contains(use->id))
      return "cache needs whole sequences, and " + use->id + " divides them; use cp-ulysses";
  return "";
}

void require_one_kind(const ComponentSpec& model, const std::string& tokenizer, bool makes_codes) {
  const bool of_codes = NextToken::is_for(model);
  if (of_codes != makes_codes)
    raise(KINORA_ERROR_INVALID, "{} works on {} and {} makes {}; choose the other kind of one of them",
          model.id, of_codes ? "codes" : "latents", tokenizer, makes_codes ? "codes" : "latents");
}

bool takes_input(const ComponentSpec& model, const std::string& input) {
  return std::any_of(model.inputs.begin(), model.inputs.end(),
                     [&](const auto& i) { return i.name == input; });
}

void require_signal(const ComponentSpec& model, const Options& its, const std::string& name) {
  const auto signals = signals_of(its);
  if (!signals.count(name) && (!takes_input(model, name) || name == "latent" || name == "timestep"))
    raise(KINORA_ERROR_INVALID, "signals: {} takes no '{}'; its own signals are: {}", model.id, name,
          signals.empty() ? "none" : fmt::format("{}", fmt::join(signals, ", ")));
}

void require_interval(const GenerateOptions& o) {
  const auto& levels = o.guidance_interval;
  if (!levels.empty() && levels.size() != 2)
    raise(KINORA_ERROR_INVALID, "guidance_interval requires two noise levels, for example [0.2, 5.0]");
  if (!levels.empty() && levels[0] >= levels[1])
    raise(KINORA_ERROR_INVALID, "guidance_interval = [{}, {}] is empty; give the lower level first",
          levels[0], levels[1]);
}

// Options that differ from their defaults but apply to the other kind of model only, which the job refuses by name.
std::vector<const char*> of_other_kind(const GenerateOptions& o, bool of_codes) {
  std::vector<const char*> out;
  const auto add = [&](bool given, const char* name) {
    if (given) out.push_back(name);
  };
  if (of_codes) {
    add(!o.guidance_interval.empty(), "guidance_interval");
    add(o.preview_every > 0, "preview_every");
    add(o.causal, "causal");
    add(o.teacher_forcing, "teacher_forcing");
    add(o.strength != 1, "strength");
    add(!o.weights_2.empty(), "weights_2");
    add(!o.noise.empty(), "noise");
    add(!o.last_image.empty(), "last_image");
  } else {
    add(o.temperature != 1, "temperature");
    add(o.top_k != 0, "top_k");
    add(o.top_p != 1, "top_p");
  }
  return out;
}

}  // namespace kinora::core
