#include "plugins/stages/transnetv2/windows.hpp"

#include <algorithm>

#include <ATen/ATen.h>

namespace kinora::transnetv2 {
namespace {

constexpr int64_t kFrames = 100, kStep = 50, kEdge = 25;

// Returns `count` windows from number `first` on: [count, 100, 27, 48, 3].
at::Tensor windows(const at::Tensor& thumbnails, int64_t first, int64_t count) {
  std::vector<int64_t> frames;
  for (int64_t w = first; w < first + count; ++w)
    for (int64_t i = 0; i < kFrames; ++i)
      frames.push_back(std::clamp<int64_t>(w * kStep + i - kEdge, 0, thumbnails.size(0) - 1));
  const auto at = at::tensor(frames, at::kLong);
  return thumbnails.index_select(0, at).view({count, kFrames, thumbnails.size(1), thumbnails.size(2), 3});
}

void append_middle(std::vector<float>& to, const at::Tensor& batch, size_t length) {
  const at::Tensor middle = batch.narrow(1, kEdge, kStep).contiguous();
  const float* from = middle.const_data_ptr<float>();
  to.insert(to.end(), from, from + std::min(static_cast<size_t>(middle.numel()), length - to.size()));
}

}  // namespace

FilmPredictions predict(const Ask& network, const at::Tensor& thumbnails, int64_t batch,
                        const std::function<void()>& before_batch) {
  const int64_t frames = thumbnails.size(0), all = (frames + kStep - 1) / kStep;
  FilmPredictions out;
  for (int64_t first = 0; first < all; first += batch) {
    before_batch();
    const auto answers = network(windows(thumbnails, first, std::min(batch, all - first)));
    append_middle(out.change, answers.change, static_cast<size_t>(frames));
    append_middle(out.part, answers.part, static_cast<size_t>(frames));
  }
  return out;
}

std::vector<int64_t> cuts_of(const std::vector<float>& change, double threshold) {
  std::vector<int64_t> cuts;
  for (size_t i = 1; i < change.size(); ++i)
    if (static_cast<double>(change[i - 1]) > threshold && static_cast<double>(change[i]) <= threshold)
      cuts.push_back(static_cast<int64_t>(i));
  return cuts;
}

}  // namespace kinora::transnetv2
