// A film of any length through a network of 100 frames, and from its answers to shots.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "plugins/stages/transnetv2/network.hpp"

namespace kinora::transnetv2 {

struct FilmPredictions {
  std::vector<float> change, part;  // a number a frame
};

using Ask = std::function<Network::Predictions(const at::Tensor& windows)>;

// thumbnails: [T, 27, 48, 3] uint8, T > 0. Windows of 100 frames, 50 apart, of which the middle 50 count; 25
// copies of the first frame stand before the film, as many of the last one after it as the last window needs.
// `batch` windows at a time; `before_batch` is called before each.
FilmPredictions predict(const Ask& network, const at::Tensor& thumbnails, int64_t batch,
                        const std::function<void()>& before_batch);

// First frames of shots but the first: where a run of frames above the threshold has ended. The network
// answers at the last frame of the old shot, so for a hard cut this is the first frame of the new one.
std::vector<int64_t> cuts_of(const std::vector<float>& change, double threshold);

}  // namespace kinora::transnetv2
