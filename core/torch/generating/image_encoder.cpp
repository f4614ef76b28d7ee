#include "core/torch/generating/image_encoder.hpp"

#include <algorithm>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "core/jobs/paths_option.hpp"
#include "core/torch/media/clip_image.hpp"
#include "core/torch/tensors/torch_guard.hpp"

namespace kinora::core {

ImageEncoder::ImageEncoder(const JobContext& context, const JobSpec& job, const ChainOptions& chain)
    : device_(chain.device) {
  const auto& use = *job.component("image_encoder");
  const auto component = context.open(use);
  const auto& inputs = component.spec->inputs;
  const bool reads =
      std::any_of(inputs.begin(), inputs.end(), [](const auto& i) { return i.name == "image"; });
  if (!reads || !use.options.values().contains("image_size"))
    raise(KINORA_INVALID,
          "job '{}': image_encoder = '{}' reads no 'image' of a size; give it one such as clip-vision",
          job.name, use.id);
  const auto weights = weights_in(job.options, "image_encoder_weights");
  if (weights.empty())
    raise(KINORA_INVALID,
          "job '{}' has an image_encoder; say where its weights are: image_encoder_weights = \"FILE or "
          "FOLDER\"",
          job.name);
  size_ = use.options.values().at("image_size").get<int64_t>();
  network_ = std::make_unique<Network>(component, use.options, chain);
  network_->load(weights, true);
}

at::Tensor ImageEncoder::operator()(const at::Tensor& frame) {
  const at::NoGradGuard off;
  return network_->forward({{"image", clip_image(frame, size_).to(device_)}})
      .at(0)[0]
      .to(at::kCPU, at::kFloat)
      .contiguous();
}

}  // namespace kinora::core
