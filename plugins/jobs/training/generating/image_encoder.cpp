#include "plugins/jobs/training/generating/image_encoder.hpp"

#include <algorithm>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "plugins/jobs/training/options/paths_option.hpp"
#include "core/torch/media/clips.hpp"
#include "core/torch/tensors/torch_guard.hpp"

namespace kinora::core {

int64_t ImageEncoder::require(const JobView& context, const JobSpec& job) {
  const auto& use = *job.component("image_encoder");
  const auto& inputs = context.open(use).spec->inputs;
  const bool reads =
      std::any_of(inputs.begin(), inputs.end(), [](const auto& i) { return i.name == "image"; });
  if (!reads || !use.options.values().contains("image_size"))
    raise(KINORA_INVALID, "image_encoder = '{}' reads no 'image' of a fixed size; choose an encoder such as clip-vision",
          use.id);
  if (weights_in(job.options, "image_encoder_weights").empty())
    raise(KINORA_INVALID,
          "the job has an image_encoder; set its weights: image_encoder_weights = \"FILE or FOLDER\"");
  return use.options.values().at("image_size").get<int64_t>();
}

ImageEncoder::ImageEncoder(const JobView& context, const JobSpec& job, const ChainOptions& chain)
    : device_(chain.device), size_(require(context, job)) {
  const auto& use = *job.component("image_encoder");
  network_ = std::make_unique<Network>(context.open(use), use.options, chain);
  network_->load(weights_in(job.options, "image_encoder_weights"));
}

at::Tensor ImageEncoder::operator()(const at::Tensor& frame) {
  const at::NoGradGuard off;
  return network_->forward({{"image", clip_image(frame, size_).to(device_)}})
      .at(0)[0]
      .to(at::kCPU, at::kFloat)
      .contiguous();
}

}  // namespace kinora::core
