#include "input.hpp"

#include <algorithm>
#include <cmath>

#include <ATen/ATen.h>

namespace kinora::exported {
namespace {

// Scales x [F, 3, h, w] to cover the input and crops its centre, rounding as torchvision does; or stretches it.
at::Tensor fitted(const at::Tensor& x, const InputOptions& how) {
  const int64_t h = x.size(2), w = x.size(3);
  int64_t height = how.height, width = how.width;
  if (how.fit == "crop") {
    if (how.height * w >= how.width * h)
      width = how.height * w / h;
    else
      height = how.width * h / w;
  }
  const at::Tensor scaled = how.resample == "bicubic"
                                ? at::_upsample_bicubic2d_aa(x, {height, width}, false)
                                : at::_upsample_bilinear2d_aa(x, {height, width}, false);
  const auto middle = [](int64_t all, int64_t part) {
    return static_cast<int64_t>(std::nearbyint(static_cast<double>(all - part) / 2));
  };
  return scaled.clamp(0, 1)
      .narrow(2, middle(height, how.height), how.height)
      .narrow(3, middle(width, how.width), how.width);
}

at::Tensor of_colours(const std::vector<double>& values) {
  return at::tensor(values, at::kFloat).view({1, 3, 1, 1});
}

}  // namespace

void InputOptions::check(const char* stage) const {
  const auto refuse = [&](const std::string& what) {
    throw Error(KINORA_INVALID, std::string(stage) + ": " + what);
  };
  if (mean.size() != 3 || deviation.size() != 3)
    refuse("mean and std must have three numbers each, for red, green and blue");
  if (std::any_of(deviation.begin(), deviation.end(), [](double v) { return !(v > 0); }))
    refuse("all numbers of std must be above 0");
}

at::ScalarType InputOptions::type() const {
  return dtype == "float16"    ? at::kHalf
         : dtype == "bfloat16" ? at::kBFloat16
         : dtype == "float64"  ? at::kDouble
                               : at::kFloat;
}

uint64_t InputOptions::memory(int64_t batch) const {
  constexpr uint64_t kSample = 32 << 20;
  const auto clip = static_cast<uint64_t>(frames * height * width) * 3 * sizeof(float);
  return static_cast<uint64_t>(batch) * 2 * clip + static_cast<uint64_t>(batch - 1) * kSample;
}

std::vector<int64_t> spread(int64_t first, int64_t count, int64_t frames) {
  std::vector<int64_t> out;
  for (int64_t i = 0; i < frames; ++i) out.push_back(first + (2 * i + 1) * count / (2 * frames));
  return out;
}

at::Tensor prepared(const Pictures& pictures, const std::vector<int64_t>& indices, const InputOptions& how) {
  std::vector<at::Tensor> frames;
  for (const int64_t i : indices)
    frames.push_back(at::from_blob(const_cast<uint8_t*>(pictures.frame(i)),
                                   {pictures.height, pictures.width, 3}, at::kByte)
                         .permute({2, 0, 1})
                         .to(at::kFloat)
                         .div_(255));
  return (fitted(at::stack(frames), how) - of_colours(how.mean)) / of_colours(how.deviation);
}

at::Tensor laid_out(const std::vector<at::Tensor>& clips, int64_t batch, const InputOptions& how) {
  std::vector<at::Tensor> all = clips;
  while (static_cast<int64_t>(all.size()) < batch) all.push_back(all.back());
  const at::Tensor x = at::stack(all).to(how.type());  // [B, F, 3, H, W]
  if (how.layout == "BTCHW") return x;
  return how.layout == "BCTHW" ? x.transpose(1, 2).contiguous() : x.flatten(0, 1);
}

}  // namespace kinora::exported
