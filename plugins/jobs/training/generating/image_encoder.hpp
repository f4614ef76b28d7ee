// Turns a picture into embeddings: the tokens of an image encoder such as CLIP's.
#pragma once
#include "core/run/job.hpp"
#include "core/torch/context/network.hpp"

namespace kinora::core {

class ImageEncoder {
 public:
  // From a job's slot image_encoder and its option image_encoder_weights. Throws Error(KINORA_INVALID) for a
  // model that reads no image.
  ImageEncoder(const JobView&, const JobSpec& job, const ChainOptions& = {});
  // Throws the constructor's errors before anything is opened; returns the edge length of its pictures.
  static int64_t require(const JobView&, const JobSpec& job);
  // uint8 [H, W, 3] -> [L, D] float32, on the CPU.
  at::Tensor operator()(const at::Tensor& frame);

 private:
  at::Device device_;
  int64_t size_;
  std::unique_ptr<Network> network_;
};

}  // namespace kinora::core
