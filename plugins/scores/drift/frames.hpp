// What score/drift measures of one frame, and of each second of a video.
#pragma once
#include <cstdint>

#include <ATen/core/Tensor.h>

#include "kinora/run.hpp"

namespace kinora::drift {

// Columns of a row of numbers. Pixels are in [0, 1].
constexpr int64_t kBins = 8;        // of a channel's histogram
constexpr int64_t kMean = 0;        // 3: mean of each channel
constexpr int64_t kSpread = 3;      // 3: of a frame the variance of each channel, of a second the deviation
constexpr int64_t kSaturation = 6;  // mean of largest minus smallest channel
constexpr int64_t kSharpness = 7;   // mean absolute Laplacian of the luma
constexpr int64_t kChange = 8;      // mean absolute difference from the frame before; 0 for the first
constexpr int64_t kHistogram = 9;   // shares of the kBins^3 colours
constexpr int64_t kColumns = kHistogram + kBins * kBins * kBins;

// The rows of a video [3, T, H, W], [T, kColumns] float64 on the CPU. Pixels of floating point are in [-1, 1], uint8
// ones in [0, 255]. Throws Error(KINORA_ERROR_INVALID) for a pixel that is not finite, and if the run was cancelled.
at::Tensor rows_of_frames(const at::Tensor& video, const Run& run);

// The number of whole seconds, up to half a frame.
int64_t seconds_in(int64_t frames, double fps);

// The rows of each whole second of frames, [S, kColumns]; frames behind the last one are left out.
at::Tensor rows_of_seconds(const at::Tensor& frames, double fps);

}  // namespace kinora::drift
