// score/psnr and score/ssim: how alike two videos are, pixel by pixel and window by window. Videos are
// [B, C, T, H, W] in [-1, 1], a range of width 2.
#include <string>

#include <ATen/ATen.h>

#include "kinora/aten.hpp"
#include "kinora/plugin.hpp"
#include "kinora/score.hpp"

namespace kinora::similarity {
namespace {

using at::Tensor;
constexpr double kPeak = 2;
constexpr int64_t kWindow = 11;

Tensor widened(const Tensor& x) { return x.to(at::promote_types(x.scalar_type(), at::kFloat)); }

struct Pair {
  const Tensor &made, &original;
};

Pair pair_of(const char* what, const Named<Tensor>& in) {
  const Pair p{in["prediction"], in["target"]};
  if (p.made.sizes() != p.original.sizes() || p.made.dim() != 5)
    throw Error(KINORA_ERROR_INVALID,
                c10::str(what, " of videos ", p.made.sizes(), " and ", p.original.sizes(),
                         ": both must be [B, C, T, H, W] of the same shape"));
  return p;
}

template <class Options>
void describe_videos(Describe<Options>& d) {
  d.input("prediction", "[B, C, T, H, W]", "float", "values in [-1, 1]");
  d.input("target", "[B, C, T, H, W]", "float", "values in [-1, 1]");
}

// The Gaussian-weighted mean around each position where the window fits, for images [N, 1, H, W]: one axis,
// then the other.
Tensor blurred(const Tensor& x, const Tensor& window) {
  return at::conv2d(at::conv2d(x, window.view({1, 1, -1, 1})), window.view({1, 1, 1, -1}));
}

}  // namespace

// 10 log10(peak^2 / mean squared error); infinite for equal videos.
class Psnr final : public MeanScore<at::Tensor> {
 public:
  struct Options {};
  static void describe(Describe<Options>& d) {
    d.name("psnr").help("PSNR: ratio of the largest squared error to the mean squared error, in decibels");
    describe_videos(d);
    d.output("psnr", "[]", "float64", "mean over videos");
  }
  explicit Psnr(const Options&) {}

  Tensor each(const Run&, const Named<Tensor>& in) override {
    const auto [a, b] = pair_of("psnr", in);
    const Tensor error = (widened(a) - widened(b)).square().flatten(1).mean(1);
    return 10 * (kPeak * kPeak / error).log10();
  }
};
KINORA_COMPONENT(Psnr)

// Structural similarity (Wang et al. 2004, equation 13): Gaussian window of 11 pixels, sigma 1.5, K1 .01, K2
// .03, wherever the window fits; the mean over channels, frames and positions.
class Ssim final : public MeanScore<at::Tensor> {
 public:
  struct Options {};
  static void describe(Describe<Options>& d) {
    d.name("ssim").help("SSIM: structural similarity; videos with fewer than 11 rows or columns have none");
    describe_videos(d);
    d.output("ssim", "[]", "float64", "mean over videos");
  }
  explicit Ssim(const Options&) {}

  Tensor each(const Run&, const Named<Tensor>& in) override {
    const auto [a, b] = pair_of("ssim", in);
    if (a.size(3) < kWindow || a.size(4) < kWindow) return at::empty({0});
    const auto images = [](const Tensor& v) { return widened(v).flatten(0, 2).unsqueeze(1); };
    const Tensor x = images(a), y = images(b);
    const Tensor at = at::arange(kWindow, x.options()) - (kWindow - 1) / 2;
    const Tensor g = (-at.square() / (2 * 1.5 * 1.5)).exp(), window = g / g.sum();
    const double c1 = (0.01 * kPeak) * (0.01 * kPeak), c2 = (0.03 * kPeak) * (0.03 * kPeak);
    const Tensor mx = blurred(x, window), my = blurred(y, window);
    const Tensor vx = blurred(x.square(), window) - mx.square(),
                 vy = blurred(y.square(), window) - my.square(), cov = blurred(x * y, window) - mx * my;
    const Tensor s =
        (2 * mx * my + c1) * (2 * cov + c2) / ((mx.square() + my.square() + c1) * (vx + vy + c2));
    return s.view({a.size(0), -1}).mean(1);
  }
};
KINORA_COMPONENT(Ssim)

KINORA_PLUGIN(Psnr, Ssim)

}  // namespace kinora::similarity
