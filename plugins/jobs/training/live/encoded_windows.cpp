#include "plugins/jobs/training/live/encoded_windows.hpp"

#include <functional>
#include <numeric>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "core/base/facts.hpp"
#include "core/torch/tensors/torch_guard.hpp"

namespace kinora::core {

EncodedWindows::EncodedWindows(const JobView& encode, at::Device device)
    : options_(encode.options<EncodeOptions>()),
      windows_(encode, window_sizes(options_), options_.every),
      signals_(options_.signals, options_.every),
      encoder_(encode, options_, device),
      text_(encode, encode.spec(), device),
      fps_(24.0 / static_cast<double>(options_.every)) {}

EncodedWindows::Window EncodedWindows::at(uint64_t slot, const LiveWindows::Accept& accept) {
  const at::NoGradGuard off;
  std::optional<Window> out;
  windows_.at(slot, accept, [&](LiveWindows::Window window) {
    std::string why;
    auto tensors = signals_.of(window.facts, why);
    if (!tensors) raise(KINORA_ERROR_DATA, "{}: {}", window.key, why);
    tensors->merge(encoder_(window.frames));
    (*tensors)["text"] = text_(window.text);
    if (const double fps = number_in(window.facts, "fps"); fps > 0)
      fps_ = fps / static_cast<double>(options_.every);
    const auto size = window.frames.sizes();
    out = Window{std::move(window.key), *std::move(tensors), {size[0], size[1], size[2]}};
  });
  return *std::move(out);
}

int64_t EncodedWindows::positions(uint64_t slot, const LiveWindows::Accept& accept) {
  const auto latent = encoder_.shape(windows_.size(slot, accept));
  return std::accumulate(latent.end() - 3, latent.end(), int64_t{1}, std::multiplies<>());
}

}  // namespace kinora::core
