#include "core/torch/training/video_features.hpp"

#include <algorithm>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "core/torch/media/clip_image.hpp"
#include "core/torch/media/clips.hpp"
#include "core/torch/tensors/torch_guard.hpp"

namespace kinora::core {

int64_t ReconstructionFeatures::require(const JobView& context) {
  const auto& use = *context.spec().component("features");
  const auto component = context.open(use);
  const auto reads = [&](const char* name) {
    const auto& inputs = component.spec->inputs;
    return std::any_of(inputs.begin(), inputs.end(), [&](const TensorSpec& t) { return t.name == name; });
  };
  const auto& options = use.options.values();
  if (!reads("video") && (!reads("image") || !options.contains("image_size")))
    raise(KINORA_INVALID, "features = '{}' reads neither 'video' nor an 'image' of a size; try clip-vision",
          use.id);
  if (context.spec().options.at("features_weights").get<std::string>().empty())
    raise(KINORA_INVALID,
          "it has a feature model; say where its weights are: features_weights = \"FILE or FOLDER\"");
  return reads("video") ? 0 : options.at("image_size").get<int64_t>();
}

ReconstructionFeatures::ReconstructionFeatures(const JobView& context)
    : id_(context.spec().component("features")->id), image_size_(require(context)) {
  const auto& use = *context.spec().component("features");
  network_ = std::make_unique<Network>(context.open(use), use.options, ChainOptions{});
  network_->load(context.spec().options.at("features_weights").get<std::string>(), true);
}

at::Tensor ReconstructionFeatures::of(const at::Tensor& video) {
  NamedTensors in{{"video", video.to(at::kFloat)}};
  if (image_size_ > 0) {
    std::vector<at::Tensor> images;
    for (const auto& frame : frames_of(video).unbind(0)) images.push_back(clip_image(frame, image_size_));
    in = {{"image", at::cat(images)}};
  }
  for (const auto& output : network_->forward(in))
    if (output.dim() == 2) return output.mean(0, true);
  raise(KINORA_INVALID, "features = '{}' has no output [B, D]: one vector a video or image", id_);
}

void ReconstructionFeatures::add(const at::Tensor& video, const at::Tensor& made) {
  const at::NoGradGuard off;
  originals_.add(of(video));
  made_.add(of(made));
}

std::optional<double> ReconstructionFeatures::distance() const {
  if (originals_.count() < 2) return std::nullopt;
  return frechet_distance(originals_, made_);
}

}  // namespace kinora::core
