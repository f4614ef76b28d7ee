#include "plugins/jobs/training/checks.hpp"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "core/run/weights.hpp"
#include "core/torch/context/parallelism.hpp"
#include "core/torch/context/rehearsal.hpp"
#include "core/torch/media/latents.hpp"
#include "core/torch/media/signals.hpp"
#include "core/torch/tensors/device.hpp"
#include "core/torch/tensors/torch_guard.hpp"
#include "core/torch/weights/published.hpp"
#include "plugins/jobs/training/generating/encoders.hpp"
#include "plugins/jobs/training/generating/next_token.hpp"
#include "plugins/jobs/training/generating/rules.hpp"
#include "plugins/jobs/training/live/window_size.hpp"
#include "plugins/jobs/training/trainer.hpp"

namespace kinora::core {
namespace {

at::Tensor empty(std::vector<int64_t> shape, at::ScalarType dtype = at::kFloat) {
  return at::empty(shape, at::TensorOptions().device(at::kMeta).dtype(dtype));
}

// The outputs of a forward on the meta device; nothing if it cannot run there, which does not mean that the
// model is wrong.
std::vector<at::Tensor> meta_forward(Network& model, const NamedTensors& in) {
  const at::NoGradGuard off;
  kinora_pass pass{};
  pass.struct_size = sizeof pass;
  pass.no_grad = 1;
  model.chain().begin(pass);
  try {
    return with_plain_errors([&] { return model.forward(in); });
  } catch (const Error& e) {
    if (e.code() == KINORA_ERROR_INVALID) throw;
    return {};
  }
}

// Number of channels of a text encoder's embeddings.
int64_t text_size(const JobView& job) {
  const auto encoder = on_meta(job, *job.spec().component("text"));
  const auto out = meta_forward(
      *encoder, {{"input_ids", empty({1, 4}, at::kLong)}, {"attention_mask", empty({1, 4}, at::kLong)}});
  return out.empty() ? 0 : out[0].size(-1);
}

Encoded of_options(const JobView& encode) {
  const auto o = encode.options<EncodeOptions>();
  const Part part = part_of(encode, "tokenizer", "tokenizer_weights", "train-tokenizer");
  const auto info = on_meta(encode, *part.use)->info();
  const auto& id = part.use->id;
  Encoded out{
      id,
      {latent_frames(info, id, o.frames), latent_rows(info, id, o.height), latent_columns(info, id, o.width)},
      info.codes,
      text_size(encode),
      window_sizes(o).size()};
  if (!info.discrete) out.shape.insert(out.shape.begin(), info.channels);
  return out;
}

bool takes(const ComponentUse& use, const ComponentSpec& spec, const std::string& input) {
  return std::any_of(spec.inputs.begin(), spec.inputs.end(),
                     [&](const auto& i) { return i.name == input; }) ||
         signals_of(use.options).count(input) != 0;
}

}  // namespace

std::unique_ptr<Network> on_meta(const JobView& job, const ComponentUse& use,
                                 std::optional<LoraOptions> lora) {
  return with_plain_errors([&] {
    return std::make_unique<Network>(job.open(use), use.options,
                                     ChainOptions{.device = at::kMeta, .lora = std::move(lora)});
  });
}

std::optional<Encoded> encoded_for(const JobCheck& check) {
  const JobSpec* encode = check.upstream("encode");
  if (!encode) return std::nullopt;
  try {
    Encoded out = of_options({check.runtime(), check.run(), *encode});
    if (check.ahead()) return out;
    const auto facts = LatentFacts::of_folder(check.folder_of(*encode));
    out.shape = facts.shape;
    out.text_size = facts.text_size;
    if (out.shape.size() < 3) return std::nullopt;
    return out;
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

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

void check_training(JobCheck& check, const OptimizerOptions& o, const ComponentUse& trained) {
  check_device(check);
  check_weights(check, "weights", trained);
  const auto axes = check.made("parallel", [&] { return Parallelism::axes(check, check.ranks()); });
  if (axes && axes->contains("cfg"))
    check.problem(
        "parallel",
        "parallel: cfg divides the two predictions of guidance, which training does not have; leave it to "
        "generate jobs");
  if (axes) check.holds("batch", [&] { require_batch(o, Parallelism::data_ranks(*axes)); });
  if (const int64_t until = until_step(check.spec()); until > 0 && until >= o.steps)
    check.warning("precision",
                  fmt::format("precision: until = {} is not below the {} steps of the job, so no step is in "
                              "bfloat16; lower it, or leave it out",
                              until, o.steps));
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
  if (words) check.stage(*words);
  if (!text) return;
  if (!words) check.problem("text", "text: the encoder reads tokens; set a stage that makes them in words");
  if (weights_in(check.spec().options, "text_weights").empty())
    check.problem("text",
                  "text: the job has its own text encoder; set its weights: text_weights = "
                  "\"FILE or FOLDER\"");
  check_weights(check, "text_weights", *text);
  const auto network = check.made("text", [&] { return on_meta(check, *text); });
  if (network) check_fit(check, "text_weights", **network, weights_in(check.spec().options, "text_weights"));
}

void check_image_encoder(JobCheck& check) {
  const auto* use = check.spec().component("image_encoder");
  if (!use) return;
  const bool is_sound = check.holds("image_encoder", [&] { ImageEncoder::require(check, check.spec()); });
  check_weights(check, "image_encoder_weights", *use);
  if (!is_sound) return;
  const auto network = check.made("image_encoder", [&] { return on_meta(check, *use); });
  if (network)
    check_fit(check, "image_encoder_weights", **network,
              weights_in(check.spec().options, "image_encoder_weights"));
}

void check_transforms(JobCheck& check) {
  for (const auto* use : check.spec().list("transforms")) {
    check.stage(*use);
    if (!check.spec().data)
      check.problem(use->at,
                    "transforms: they change the samples of a table of data, such as input = { path = "
                    "\"shards/\" }; give one, or leave them out");
    if (use->from)
      check.problem(use->at, "transforms: each takes the samples of the one before it; leave `from` out");
  }
}

namespace {

std::string size_text(const WindowSize& size) {
  return fmt::format("{}x{}x{}", size.frames, size.height, size.width);
}

// Returns what a crop leaves of a window. Throws Error(KINORA_ERROR_INVALID) if its rectangle is larger.
WindowSize cropped(const ComponentUse& crop, const WindowSize& window) {
  const auto left = [&](const char* option, int64_t of) {
    const int64_t to = crop.options.values().value(option, int64_t{0});
    if (to > of)
      raise(KINORA_ERROR_INVALID,
            "transforms: video.crop has {} = {}, and windows of {} have {}; lower it, or raise the job's {}",
            option, to, size_text(window), of, option);
    return to > 0 ? to : of;
  };
  return {window.frames, left("height", window.height), left("width", window.width)};
}

}  // namespace

void check_crops(JobCheck& check, const kinora_tokenizer_info& info, const std::string& tokenizer,
                 const std::vector<WindowSize>& sizes) {
  for (WindowSize window : sizes)
    for (const auto* use : check.spec().list("transforms")) {
      if (use->id != "stage/video.crop") continue;
      try {
        const WindowSize left = cropped(*use, window);
        if (sizes.size() > 1 && left != window)
          raise(KINORA_ERROR_INVALID,
                "transforms: video.crop leaves {} of windows of {}, and with `sizes` each window keeps its "
                "size; "
                "leave video.crop or sizes out",
                size_text(left), size_text(window));
        latent_rows(info, tokenizer, left.height);
        latent_columns(info, tokenizer, left.width);
        window = left;
      } catch (const Error& e) {
        return check.problem(use->at, e.what());
      }
    }
}

void check_forward(JobCheck& check, Network& model, const ComponentUse& use, const Encoded& encoded,
                   bool noisy, bool by_frame) {
  const auto& spec = *or_throw(check.runtime().registry().find(use.id));
  auto shape = encoded.shape;
  shape.insert(shape.begin(), 1);
  NamedTensors in;
  const auto give = [&](const char* name, const at::Tensor& t) {
    if (takes(use, spec, name)) in[name] = t;
  };
  if (encoded.of_codes())
    give("codes", empty(shape, at::kLong));
  else
    give("latent", empty(shape));
  const int64_t extra =
      encoded.of_codes() ? 0 : use.options.values().value("in_channels", shape[1]) - shape[1];
  if (extra > 1 && takes(use, spec, "condition")) return;  // known only to the job
  if (extra == 1) give("condition_mask", empty({1, 1, shape[2], shape[3], shape[4]}));
  if (noisy) give("timestep", by_frame ? empty({1, shape[2]}) : empty({1}));
  if (encoded.text_size > 0) {
    give("text", empty({1, 4, encoded.text_size}));
    give("text_mask", empty({1, 4}, at::kBool));
  }
  const auto out = check.made("model", [&] { return meta_forward(model, in); });
  if (!out || out->empty() || encoded.of_codes() || (*out)[0].sizes() == at::IntArrayRef(shape)) return;
  check.problem(
      "model",
      fmt::format("model: {} makes {} of latents {} of {}, but the shapes must be equal; fix its "
                  "out_channels",
                  use.id, c10::str((*out)[0].sizes()), c10::str(at::IntArrayRef(shape)), encoded.tokenizer));
}

}  // namespace kinora::core
