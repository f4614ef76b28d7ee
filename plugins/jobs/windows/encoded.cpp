#include "plugins/jobs/windows/encoded.hpp"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include "core/torch/media/signals.hpp"
#include "core/torch/tensors/torch_guard.hpp"
#include "plugins/jobs/inference/network_checks.hpp"
#include "plugins/jobs/inference/rules.hpp"
#include "plugins/jobs/latents/latents.hpp"
#include "plugins/jobs/windows/encode_options.hpp"
#include "plugins/jobs/windows/window_size.hpp"

namespace kinora::core {
namespace {

at::Tensor empty(std::vector<int64_t> shape, at::ScalarType dtype = at::kFloat) {
  return at::empty(shape, at::TensorOptions().device(at::kMeta).dtype(dtype));
}

// The outputs of a forward on the meta device; nothing if it cannot run there, which does not mean that the
// model is wrong.
std::vector<at::Tensor> meta_forward(Model& model, const NamedTensors& in) {
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
  const auto encoder = on_meta<Model>(job, *job.spec().component("text"));
  const auto out = meta_forward(
      *encoder, {{"input_ids", empty({1, 4}, at::kLong)}, {"attention_mask", empty({1, 4}, at::kLong)}});
  return out.empty() ? 0 : out[0].size(-1);
}

Encoded of_options(const JobView& encode) {
  const auto o = encode.options<EncodeOptions>();
  const Part part = part_of(encode, "tokenizer", "tokenizer_weights", "train-tokenizer");
  const auto info = on_meta<Tokenizer>(encode, *part.use)->info();
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

void check_forward(JobCheck& check, Model& model, const ComponentUse& use, const Encoded& encoded, bool noisy,
                   bool by_frame) {
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
