// Samples of several shots: consecutive clips of one video, joined along time, each with its own text.
//
// A curate job calls the clips of a video VIDEO-0000, VIDEO-0001 and so on, in their order there, and an
// encode job their windows CLIP@FIRST. These keys say which clips follow one another.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace kinora::core {

struct LatentItem;

// How a sample is cut from windows.
struct ShotCut {
  int64_t shots = 1;  // clips of a sample; 1: each window is a sample as it is
  int64_t chunk = 1;  // latent frames of a chunk, with which each shot begins
};

struct ShotRun {
  std::string key;  // VIDEO@NUMBER:FIRST+...; the part before '@' is that of all runs of the video
  std::vector<std::string> windows;  // keys of a latent cache, one for each shot
};

// Every run of `shots` clips with successive numbers, once for each window that all of them have: their first
// ones, their second ones and so on. keys: of windows, those of a clip ascending. Throws
// Error(KINORA_ERROR_INVALID) for keys of another form, or if no video has so many clips.
std::vector<ShotRun> shot_runs(const std::vector<std::string>& keys, int64_t shots);

// [C, T, H, W] of a window -> of the sample. Throws Error(KINORA_ERROR_INVALID) for windows shorter than a
// chunk, and for codes.
std::vector<int64_t> joined_shape(std::vector<int64_t> window, const ShotCut& cut);

// The first shot keeps the first whole chunks of its latent, the others their last: a latent frame that holds
// one frame only begins the sample, where a decoder expects it. A text without tokens becomes one of zeros,
// as a model reads an empty text. Throws Error(KINORA_ERROR_INVALID) for windows with other tensors than
// signals that are equal in all shots.
LatentItem joined_shots(std::string key, const std::vector<LatentItem>& shots, int64_t chunk);

}  // namespace kinora::core
