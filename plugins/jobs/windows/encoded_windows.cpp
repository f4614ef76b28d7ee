#include "plugins/jobs/windows/encoded_windows.hpp"

#include <algorithm>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "core/base/facts.hpp"
#include "core/torch/tensors/torch_guard.hpp"
#include "plugins/jobs/media/clips.hpp"

namespace kinora::core {

EncodedWindows::EncodedWindows(const JobView& encode, at::Device device)
    : options_(encode.options<EncodeOptions>()),
      windows_(encode, window_sizes(options_), options_.every),
      signals_(options_.signals, options_.every),
      encoder_(encode, options_, device),
      kept_(options_.latent_cache.empty() ? nullptr : std::make_unique<KeptLatents>(encode, options_)),
      text_(encode, encode.spec(), device),
      probe_(encode.runtime(), "video.probe", json::object(),
             Isolation{.trusts_media = encode.spec().data->reading.trusted}),
      fps_(24.0 / static_cast<double>(options_.every)) {
  require_kept_latents(encode, options_);
}

NamedTensors EncodedWindows::encoded(const LiveWindows::Window& window) {
  const auto made = [&] {
    auto out = encoder_(window.frames());
    if (!is_finite(out))
      raise(KINORA_ERROR_DATA, "{}: its latent has values that are not finite; check tokenizer_weights",
            window.key);
    return out;
  };
  if (!kept_) return made();
  const std::string name = kept_->name_of(window.clip, window.first, window.size);
  if (auto found = kept_->find(name)) return *std::move(found);
  auto out = made();
  kept_->keep(name, out);
  return out;
}

EncodedWindows::Window EncodedWindows::at(uint64_t slot, const LiveWindows::Accept& accept, bool has_size) {
  const at::NoGradGuard off;
  std::optional<Window> out;
  const auto use = [&](LiveWindows::Window window) {
    std::string why;
    const json facts = facts_with_rate(window.clip, window.facts, probe_);
    auto tensors = signals_.of(facts, why);
    if (!tensors) raise(KINORA_ERROR_DATA, "{}: {}", window.key, why);
    tensors->merge(encoded(window));
    (*tensors)["text"] = text_(window.text, "the caption of " + window.key);
    if (const double fps = number_in(facts, "fps"); fps > 0) fps_ = fps / static_cast<double>(options_.every);
    out = Window{std::move(window.key), *std::move(tensors), window.size};
  };
  windows_.at(slot, accept, use, has_size ? std::optional(windows_.size(slot, accept)) : std::nullopt);
  return *std::move(out);
}

json EncodedWindows::loading() const {
  json out = windows_.loading();
  out["latent_hits"] = latent_hits();
  return out;
}

LatentSize EncodedWindows::latent_size(uint64_t slot, const LiveWindows::Accept& accept) {
  const auto latent = encoder_.shape(windows_.size(slot, accept));
  LatentSize out;
  std::copy(latent.end() - 3, latent.end(), out.begin());
  return out;
}

}  // namespace kinora::core
