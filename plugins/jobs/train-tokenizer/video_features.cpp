#include "plugins/jobs/train-tokenizer/video_features.hpp"

#include <algorithm>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/serialization/import.h>

#include "core/io/byte_source.hpp"
#include "core/torch/tensors/torch_guard.hpp"
#include "plugins/jobs/media/clips.hpp"
#include "plugins/jobs/inference/paths_option.hpp"

namespace kinora::core {

struct ScriptModel::State {
  std::string file;
  torch::jit::Module module;
  std::unordered_map<std::string, c10::IValue> arguments;
};

bool ScriptModel::is_one(const std::filesystem::path& path) {
  return path.extension() == ".pt" || path.extension() == ".jit";
}

ScriptModel::ScriptModel(const std::filesystem::path& file) : state_(std::make_unique<State>()) {
  if (!std::filesystem::exists(file)) throw Error(KINORA_ERROR_NOT_FOUND, file.string() + " does not exist");
  or_throw(check_regular_file(file.string()));
  state_->file = file.string();
  try {
    state_->module = torch::jit::load(file.string(), at::kCPU);
    state_->module.eval();
    // Only arguments that forward() has are passed: a script without them gets the video alone.
    for (const auto& argument : state_->module.get_method("forward").function().getSchema().arguments())
      for (const auto& [name, value] :
           {std::pair{"rescale", false}, {"resize", true}, {"return_features", true}})
        if (argument.name() == name) state_->arguments[name] = value;
  } catch (const std::exception& e) {
    const auto* of_torch = dynamic_cast<const c10::Error*>(&e);
    raise(KINORA_ERROR_INVALID,
          "{} is not a TorchScript file that libtorch can read ({}); write it with torch.jit.save",
          file.string(), (of_torch ? text_of(*of_torch) : e.what()).substr(0, 160));
  }
}

ScriptModel::~ScriptModel() = default;

at::Tensor ScriptModel::operator()(const at::Tensor& video) {
  c10::IValue out;
  try {
    out = state_->module.get_method("forward")({video}, state_->arguments);
  } catch (const std::exception& e) {
    const auto* of_torch = dynamic_cast<const c10::Error*>(&e);
    raise(KINORA_ERROR_INVALID, "{}: its forward fails on a video {}: {}", state_->file,
          c10::str(video.sizes()), of_torch ? text_of(*of_torch) : e.what());
  }
  if (!out.isTensor() || out.toTensor().dim() != 2 || out.toTensor().size(0) != video.size(0))
    raise(KINORA_ERROR_INVALID,
          "{}: its forward must return a tensor [B, D], one vector per video; it returned {}", state_->file,
          out.isTensor() ? c10::str(out.toTensor().sizes()) : out.tagKind());
  return out.toTensor();
}

namespace {

bool is_script(const WeightsPaths& weights) { return weights.size() == 1 && ScriptModel::is_one(weights[0]); }

// Side of the square images that the model reads, in pixels; 0 for a model of videos.
int64_t image_size(const Component& component, const ComponentUse& use) {
  const auto reads = [&](const char* name) {
    const auto& inputs = component.spec->inputs;
    return std::any_of(inputs.begin(), inputs.end(), [&](const TensorSpec& t) { return t.name == name; });
  };
  const auto& options = use.options.values();
  if (reads("video")) return 0;
  if (!reads("image") || !options.contains("image_size"))
    raise(KINORA_ERROR_INVALID,
          "features = '{}' reads neither 'video' nor an 'image' of a fixed size; try clip-vision", use.id);
  return options.at("image_size").get<int64_t>();
}

}  // namespace

int64_t VideoFeatures::require(const JobView& context) {
  const auto* use = context.spec().component("features");
  const auto weights = weights_in(context.spec().options, "features_weights");
  if (weights.empty())
    raise(KINORA_ERROR_INVALID,
          "the job has a feature model; set its weights: features_weights = \"FILE or FOLDER\"");
  if (is_script(weights) && use)
    raise(KINORA_ERROR_INVALID, "{} is itself a model; remove `features`", weights[0].string());
  if (is_script(weights)) return 0;
  if (!use)
    raise(KINORA_ERROR_INVALID,
          "features_weights = {} belong to no model; set features = \"clip-vision\", or a TorchScript file "
          "(.pt, .jit)",
          weights.back().string());
  return image_size(context.open(*use), *use);
}

VideoFeatures::VideoFeatures(const JobView& context) : image_size_(require(context)) {
  const auto weights = weights_in(context.spec().options, "features_weights");
  if (is_script(weights)) {
    script_ = std::make_unique<ScriptModel>(weights[0]);
    id_ = weights[0].string();
    return;
  }
  const auto& use = *context.spec().component("features");
  id_ = use.id;
  network_ = std::make_unique<Model>(context.open(use), use.options, ChainOptions{.blank = true});
  network_->load(weights);
}

at::Tensor VideoFeatures::operator()(const at::Tensor& video) {
  const at::NoGradGuard off;
  if (script_) return (*script_)(video.to(at::kFloat));
  NamedTensors in{{"video", video.to(at::kFloat)}};
  if (image_size_ > 0) {
    std::vector<at::Tensor> images;
    for (const auto& frame : frames_of(video).unbind(0)) images.push_back(clip_image(frame, image_size_));
    in = {{"image", at::cat(images)}};
  }
  for (const auto& output : network_->forward(in))
    // A model of images gives a vector for each frame; a video's vector is their mean.
    if (output.dim() == 2) return output.mean(0, true);
  raise(KINORA_ERROR_INVALID, "features = '{}' has no output [B, D], one vector per video or image", id_);
}

}  // namespace kinora::core
