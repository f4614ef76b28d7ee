// Applies a network of 100 frames to a video of any length and turns its answers into shots.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "plugins/stages/transnetv2/network.hpp"

namespace kinora::transnetv2 {

struct FilmPredictions {
  std::vector<float> change, part;  // one number per frame
};

using Ask = std::function<Network::Predictions(const at::Tensor& windows)>;

// thumbnails: [T, 27, 48, 3] uint8, T > 0. Uses windows of 100 frames, 50 apart, of which the middle 50 count. 25
// copies of the first frame precede the video, and copies of the last frame fill the last window. Runs `batch`
// windows at a time and calls `before_batch` before each batch.
FilmPredictions predict(const Ask& network, const at::Tensor& thumbnails, int64_t batch,
                        const std::function<void()>& before_batch);

// Returns the first frames of all shots but the first: each follows a run of frames above the threshold. The
// network marks the last frame of the old shot, so for a hard cut this is the first frame of the new one.
std::vector<int64_t> cuts_of(const std::vector<float>& change, double threshold);

}  // namespace kinora::transnetv2
