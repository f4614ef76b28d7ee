#include "plugins/jobs/inference/encoders.hpp"

#include <algorithm>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "core/base/facts.hpp"
#include "core/base/log.hpp"
#include "core/base/text_encoding.hpp"
#include "core/plugin/opening.hpp"
#include "core/torch/tensors/device.hpp"
#include "core/torch/tensors/torch_guard.hpp"
#include "plugins/jobs/media/clips.hpp"
#include "plugins/jobs/inference/paths_option.hpp"

namespace kinora::core {
namespace {

// int64 [L] of the sample, as [1, L].
at::Tensor ids(const Sample& sample, const char* name) {
  const kinora_dl_tensor* t = sample.tensor(name);
  if (!t || t->ndim != 1 || t->code != KINORA_DL_INT || t->bits != 64)
    throw Error(KINORA_ERROR_INVALID,
                std::string("the stage of slot words must set the tensor ") + name + ", int64 [L]");
  return at::from_blob(static_cast<char*>(t->data) + t->byte_offset, {1, t->shape[0]}, at::kLong).clone();
}

TextEncoder::Parts parts_of(const CaptionEncoder& encoder) {
  TextEncoder::Parts parts;
  parts.words = encoder.words;
  parts.text = encoder.text;
  parts.words_options = encoder.words_options;
  parts.text_options = encoder.text_options;
  parts.weights = encoder.weights;
  parts.max_tokens = encoder.max_tokens;
  return parts;
}

}  // namespace

void require_finite(const at::Tensor& made, const std::string& what, const WeightsPaths& weights) {
  if (at::isfinite(made).all().item<bool>()) return;
  std::string files;
  for (const auto& path : weights) files += (files.empty() ? "" : ", ") + path.string();
  throw Error(KINORA_ERROR_DATA, what + " has values that are not finite; check the weights (" + files +
                                     "): is the download complete?");
}

TextEncoder::Parts TextEncoder::parts_of(const JobSpec& encode) {
  const auto &words = *encode.component("words"), &text = *encode.component("text");
  return {words.id,
          text.id,
          words.options,
          text.options,
          weights_in(encode.options, "text_weights"),
          encode.options.at("max_tokens").get<int64_t>(),
          encode.options.at("pad_text").get<bool>()};
}

TextEncoder::TextEncoder(Runtime& runtime, const Parts& parts, at::Device device,
                         std::vector<const kinora_link*> links)
    : words_(runtime, parts.words, parts.words_options),
      network_(std::make_unique<Model>(or_throw(runtime.registry().open("model", parts.text)),
                                       parts.text_options, ChainOptions{.device = device, .blank = true},
                                       std::move(links))),
      device_(device),
      max_tokens_(parts.max_tokens),
      pad_(parts.pad),
      id_(parts.text),
      weights_(parts.weights) {
  network_->load(parts.weights);
  if (parts.text.ends_with("umt5") && !parts.words_options.values().value("clean", true))
    log_info(
        "{}: texts reach it as they are written; Wan's code and diffusers repair them: words = {{ clean = "
        "true }}",
        parts.text);
}

TextEncoder::TextEncoder(const JobView& context, const JobSpec& encode, at::Device device,
                         std::vector<const kinora_link*> links)
    : TextEncoder(context.runtime(), parts_of(encode), device, std::move(links)) {}

void TextEncoder::note_cut(const std::string& whose, int64_t all, int64_t kept) {
  constexpr int64_t kMost = 10;
  if (all <= kept || ++cut_ > kMost) return;
  log_warn(
      "{}: {} of its {} tokens are cut off, because the text encoder reads {}; say the most important "
      "first{}",
      whose, all - kept, all, kept, cut_ == kMost ? "; further texts that are cut off are not listed" : "");
}

at::Tensor TextEncoder::operator()(const std::string& text, const std::string& whose) {
  const at::NoGradGuard off;
  Sample sample("text");
  sample.set("txt", or_throw(utf8_text(text, whose)));
  const Sample words = words_(sample);
  const at::Tensor mask = ids(words, "attention_mask");
  kinora_pass pass{};
  pass.struct_size = sizeof pass;
  pass.no_grad = 1;
  network_->chain().begin(pass);
  const at::Tensor out = network_
                             ->forward({{"input_ids", ids(words, "input_ids").to(device_)},
                                        {"attention_mask", mask.to(device_)}})
                             .at(0)
                             .to(at::kCPU);
  const at::Tensor read = mask[0].nonzero().squeeze(1), tokens = read.slice(0, 0, max_tokens_);
  const double all = number_in(parse_facts(words.text("json").value_or("null")), "tokens");
  note_cut(whose, std::max(static_cast<int64_t>(all), read.numel()), tokens.numel());
  const at::Tensor kept = out[0].index_select(0, tokens).to(at::kFloat).contiguous();
  require_finite(kept, id_ + ": the embedding of " + whose, weights_);
  return pad_ ? at::constant_pad_nd(kept, {0, 0, 0, max_tokens_ - kept.size(0)}) : kept;
}

int64_t ImageEncoder::require(Runtime& runtime, const Part& part) {
  const auto& inputs = open_component(runtime.registry(), {}, part.use->id).spec->inputs;
  const bool reads =
      std::any_of(inputs.begin(), inputs.end(), [](const auto& i) { return i.name == "image"; });
  if (!reads || !part.use->options.values().contains("image_size"))
    raise(KINORA_ERROR_INVALID,
          "image_encoder = '{}' reads no 'image' of a fixed size; choose an encoder such as clip-vision",
          part.use->id);
  if (part.weights.empty())
    raise(KINORA_ERROR_INVALID,
          "the job has an image_encoder; set its weights: image_encoder_weights = \"FILE or FOLDER\"");
  return part.use->options.values().at("image_size").get<int64_t>();
}

Part ImageEncoder::part_of(const JobSpec& job) {
  return {shared_use(*job.component("image_encoder")), weights_in(job.options, "image_encoder_weights")};
}

ImageEncoder::ImageEncoder(const JobView& context, const JobSpec& job, const ChainOptions& chain)
    : ImageEncoder(context.runtime(), part_of(job), chain) {}

ImageEncoder::ImageEncoder(Runtime& runtime, const Part& part, const ChainOptions& chain)
    : device_(chain.device), size_(require(runtime, part)), id_(part.use->id), weights_(part.weights) {
  ChainOptions blank = chain;
  blank.blank = true;
  network_ =
      std::make_unique<Model>(open_component(runtime.registry(), {}, part.use->id), part.use->options, blank);
  network_->load(weights_);
}

at::Tensor ImageEncoder::operator()(const at::Tensor& frame) {
  const at::NoGradGuard off;
  at::Tensor tokens = network_->forward({{"image", clip_image(frame, size_).to(device_)}})
                          .at(0)[0]
                          .to(at::kCPU, at::kFloat)
                          .contiguous();
  require_finite(tokens, id_ + ": the embedding of a picture", weights_);
  return tokens;
}

CaptionVectors::CaptionVectors(Runtime& runtime, const CaptionEncoder& encoder)
    : encoder_(runtime, parts_of(encoder), device_of(encoder.device)) {}

std::vector<float> CaptionVectors::operator()(const std::string& text) {
  const at::Tensor mean = encoder_(text).mean(0), unit = (mean / mean.norm().clamp_min(1e-12)).contiguous();
  const auto* from = unit.const_data_ptr<float>();
  return {from, from + unit.numel()};
}

}  // namespace kinora::core
