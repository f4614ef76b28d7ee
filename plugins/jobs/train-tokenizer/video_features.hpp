// Features of videos by a feature model, for distances between sets of videos.
#pragma once
#include <filesystem>
#include <memory>

#include <ATen/core/Tensor.h>

#include "core/run/job.hpp"
#include "core/torch/network/model.hpp"

namespace kinora::core {

// A feature model in a TorchScript archive, the form in which the FVD's I3D is published:
// forward(video [B, 3, T, H, W] in [-1, 1]) -> [B, D]. The further arguments of StyleGAN-V's I3D (arXiv
// 2112.14683) are passed by name: rescale = false, since pixels are in [-1, 1]; resize = true, to 224 x 224;
// return_features = true, not the logits.
class ScriptModel {
 public:
  // By its ending: .pt or .jit.
  static bool is_one(const std::filesystem::path&);
  // Throws Error(KINORA_ERROR_INVALID) if libtorch cannot read it.
  explicit ScriptModel(const std::filesystem::path& file);
  ~ScriptModel();
  // Throws Error(KINORA_ERROR_INVALID) if the script fails or returns anything else.
  at::Tensor operator()(const at::Tensor& video);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The features of a job's feature model. score/frechet of originals and reconstructions is rFVD if the model
// is I3D (Unterthiner et al. 2018), or a distance of frames if it is CLIP's.
class VideoFeatures {
 public:
  // The model in the job's slot `features`, with the weights in its option features_weights; without the
  // slot, the TorchScript that the option names. Throws Error(KINORA_ERROR_INVALID) if it reads neither
  // `video` nor `image`.
  explicit VideoFeatures(const JobView&);
  // Throws the constructor's errors before anything is opened; returns the edge length of its images, 0 for a
  // model of videos.
  static int64_t require(const JobView&);
  // video [1, 3, T, H, W] in [-1, 1] -> [1, D], without a gradient: the model's first output [B, D]; the mean
  // over frames for a model of images.
  at::Tensor operator()(const at::Tensor& video);

 private:
  std::string id_;
  int64_t image_size_;              // 0: it reads videos
  std::unique_ptr<Model> network_;  // either this or script_
  std::unique_ptr<ScriptModel> script_;
};

}  // namespace kinora::core
