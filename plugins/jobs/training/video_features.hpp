// Features of videos by a feature model, for Frechet distances between sets of videos.
#pragma once
#include <optional>

#include "core/run/job.hpp"
#include "core/torch/context/network.hpp"
#include "plugins/jobs/training/perceptual.hpp"
#include "plugins/jobs/training/script_model.hpp"

namespace kinora::core {

// The distance between originals and their reconstructions; rFVD if the model is I3D (Unterthiner et al. 2018),
// or a distance of frames if it is CLIP's.
class ReconstructionFeatures {
 public:
  // The model in the job's slot `features`, with the weights in its option features_weights; without the
  // slot, the TorchScript that the option names. Throws Error(KINORA_INVALID) if it reads neither `video` nor
  // `image`.
  explicit ReconstructionFeatures(const JobView&);
  // Throws the constructor's errors before anything is opened; returns the edge length of its images, 0 for a
  // model of videos.
  static int64_t require(const JobView&);
  // Both [1, 3, T, H, W] in [-1, 1].
  void add(const at::Tensor& video, const at::Tensor& made);
  // Nothing until there are two videos.
  std::optional<double> distance() const;

 private:
  // [1, D]: the model's first output [B, D]; the mean over frames for a model of images.
  at::Tensor of(const at::Tensor& video);
  std::string id_;
  int64_t image_size_;                // 0: it reads videos
  std::unique_ptr<Network> network_;  // either this or script_
  std::unique_ptr<ScriptModel> script_;
  FeatureStatistics originals_, made_;
};

}  // namespace kinora::core
