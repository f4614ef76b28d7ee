#include "plugins/scores/drift/frames.hpp"

#include <cmath>
#include <string>
#include <vector>

#include <ATen/ATen.h>

#include "kinora/error.hpp"

namespace kinora::drift {
namespace {

using at::Tensor;

Tensor unit_pixels(const Tensor& frame) {
  const Tensor x = frame.to(at::kDouble);
  return frame.scalar_type() == at::kByte ? x / 255 : (x + 1) / 2;
}

// Of an image without an inner pixel: 0.
Tensor sharpness(const Tensor& rgb) {
  const int64_t H = rgb.size(1), W = rgb.size(2);
  if (H < 3 || W < 3) return at::zeros({}, rgb.options());
  const Tensor luma = 0.299 * rgb[0] + 0.587 * rgb[1] + 0.114 * rgb[2];  // Rec. 601
  const auto moved = [&](int64_t y, int64_t x) { return luma.narrow(0, y, H - 2).narrow(1, x, W - 2); };
  return (4 * moved(1, 1) - moved(0, 1) - moved(2, 1) - moved(1, 0) - moved(1, 2)).abs().mean();
}

// By bins of equal width.
Tensor shares_of_colours(const Tensor& rgb) {
  const Tensor bin = (rgb * kBins).floor().clamp(0, kBins - 1).to(at::kLong);
  const Tensor colour = (bin[0] * kBins + bin[1]) * kBins + bin[2];
  const Tensor counts = at::bincount(colour.flatten(), {}, kColumns - kHistogram);
  return counts.to(at::kDouble) / static_cast<double>(colour.numel());
}

}  // namespace

Tensor rows_of_frames(const Tensor& video, const Run& run) {
  std::vector<Tensor> rows;
  Tensor before;
  for (int64_t t = 0; t < video.size(1); ++t) {
    run.check_cancelled();
    const Tensor rgb = unit_pixels(video.select(1, t)), mean = rgb.mean({1, 2});
    if (!mean.isfinite().all().item<bool>())
      throw Error(KINORA_ERROR_INVALID,
                  "frame " + std::to_string(t) + " has pixels that are infinite or NaN");
    const Tensor variance = (rgb - mean.view({3, 1, 1})).square().mean({1, 2});
    const Tensor saturation = (rgb.amax(0) - rgb.amin(0)).mean();
    const Tensor change = before.defined() ? (rgb - before).abs().mean() : at::zeros({}, rgb.options());
    const Tensor numbers = at::stack({saturation, sharpness(rgb), change});
    rows.push_back(at::cat({mean, variance, numbers, shares_of_colours(rgb)}).to(at::kCPU));
    before = rgb;
  }
  return at::stack(rows);
}

// Seconds begin at the nearest frame, so that a rate that was measured from rounded times does not lose one.
int64_t seconds_in(int64_t frames, double fps) {
  return static_cast<int64_t>((static_cast<double>(frames) + 0.5) / fps);
}

Tensor rows_of_seconds(const Tensor& frames, double fps) {
  const auto begin = [&](int64_t second) {
    return static_cast<int64_t>(std::ceil(static_cast<double>(second) * fps - 0.5));
  };
  const int64_t seconds = seconds_in(frames.size(0), fps);
  std::vector<Tensor> rows;
  for (int64_t k = 0; k < seconds; ++k) {
    const Tensor part = frames.narrow(0, begin(k), begin(k + 1) - begin(k));
    Tensor row = part.mean(0);
    // The variance over a second is that within its frames plus that of their means.
    const Tensor apart = part.narrow(1, kMean, 3) - row.narrow(0, kMean, 3);
    row.narrow(0, kSpread, 3).copy_((part.narrow(1, kSpread, 3) + apart.square()).mean(0).sqrt());
    rows.push_back(row);
  }
  return rows.empty() ? at::empty({0, kColumns}, at::kDouble) : at::stack(rows);
}

}  // namespace kinora::drift
