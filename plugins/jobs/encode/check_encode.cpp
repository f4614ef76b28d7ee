#include "plugins/jobs/encode/check_encode.hpp"

#include "core/torch/media/signals.hpp"
#include "core/torch/ranks/parallelism.hpp"
#include "core/torch/tensors/torch_guard.hpp"
#include "plugins/jobs/inference/network_checks.hpp"
#include "plugins/jobs/inference/rules.hpp"
#include "plugins/jobs/latents/latents.hpp"
#include "plugins/jobs/windows/encode_options.hpp"
#include "plugins/jobs/windows/kept_latents.hpp"
#include "plugins/jobs/windows/window_checks.hpp"

namespace kinora::core {
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
  if (!check_single_networks(check)) return;
  check_device(check);
  const auto axes = check.made("parallel", [&] { return Parallelism::axes(check, check.ranks()); });
  check.holds("signals", [&] { Signals(o.signals, o.every); });
  check_layout(check, nullptr, {}, 0);
  check_transforms(check);
  check.holds("latent_cache", [&] { require_kept_latents(check, o); });
  check_text(check);
  check_image_encoder(check);
  const auto tokenizer = check_tokenizer_part(check);
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

}  // namespace kinora::core
