// TransNet V2 (Soucek and Lokoc, 2020, arXiv 2008.04838): finds shot changes of a video in windows of 100
// frames of 48 x 27 pixels. Three blocks of dilated (2+1)D convolutions, combined with each frame's
// similarity to the 50 frames before and after it, by learnt features and by colour histograms. Also its
// weights, and its use on a video of any length.
//
// Shapes: B windows, T frames, H = 27, W = 48.
#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

namespace kinora::transnetv2 {

using Weights = std::map<std::string, at::Tensor>;

// Returns the float32 tensors of a safetensors file (huggingface/safetensors: 8 bytes of length, a JSON
// header, the tensors) by name, and ignores other types. Reads the file whole, at most 1 GiB.
// Error(KINORA_ERROR_DATA) names the file and what is wrong.
Weights read_safetensors(const std::string& uri);

// Names and shapes of the published weights.
const std::map<std::string, std::vector<int64_t>>& expected_weights();

// [any-thread] after construction.
class Network {
 public:
  // Error(KINORA_ERROR_DATA), which begins with `source` and names a tensor that is missing or has another
  // shape.
  Network(Weights weights, const std::string& source);

  struct Predictions {
    at::Tensor change;  // [B, T] float32: probability that the shot changes after this frame
    at::Tensor part;    // [B, T] float32: probability that this frame is part of a change, hard or gradual
  };
  // frames: [B, T, 27, 48, 3] uint8, RGB, contiguous.
  Predictions operator()(const at::Tensor& frames) const;

 private:
  at::Tensor weight(const std::string& name) const { return weights_.at(name); }
  at::Tensor linear(const std::string& name, const at::Tensor& x) const;
  at::Tensor cell(const std::string& name, const at::Tensor& x) const;
  at::Tensor block(const std::string& name, const at::Tensor& x) const;
  at::Tensor feature_likeness(const std::vector<at::Tensor>& blocks) const;
  Weights weights_;
};

// Returns [B, T, 101]: similarity of each frame to those from 50 before to 50 after it, 0 beyond the ends. x:
// [B, T, D] of norm 1.
at::Tensor likeness_around(const at::Tensor& x);

// Returns [B, T, 512]: colours of each frame, 8 levels per channel, norm 1. frames: [B, T, 27, 48, 3] uint8.
at::Tensor colour_histograms(const at::Tensor& frames);

struct FilmPredictions {
  std::vector<float> change, part;  // one number per frame
};

using Ask = std::function<Network::Predictions(const at::Tensor& windows)>;

// thumbnails: [T, 27, 48, 3] uint8, T > 0. Uses windows of 100 frames, 50 apart, of which the middle 50
// count. 25 copies of the first frame precede the video, and copies of the last frame fill the last window.
// Runs `batch` windows at a time and calls `before_batch` before each batch.
FilmPredictions predict(const Ask& network, const at::Tensor& thumbnails, int64_t batch,
                        const std::function<void()>& before_batch);

// Returns the first frames of all shots but the first: each follows a run of frames above the threshold. The
// network marks the last frame of the old shot, so for a hard cut this is the first frame of the new one.
std::vector<int64_t> cuts_of(const std::vector<float>& change, double threshold);

}  // namespace kinora::transnetv2
