#include "core/torch/clips.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <numeric>

#include "core/torch/noise.hpp"

namespace kinora::core {
namespace {

// A uint8 tensor of a sample as at::Tensor; the sample's memory is copied, since the cache outlives it.
at::Tensor frames_of_sample(const Sample& sample) {
  const kinora_dl_tensor* t = sample.tensor("frames");
  if (!t || t->ndim != 4 || t->code != KINORA_DL_UINT || t->bits != 8)
    throw Error(KINORA_INVALID, "the stage of slot read must set the tensor frames, uint8 [T, H, W, 3]");
  return at::from_blob(static_cast<char*>(t->data) + t->byte_offset, at::IntArrayRef(t->shape, 4), at::kByte).clone();
}

}  // namespace

Clips::Clips(JobContext& context, const std::filesystem::path& folder, const json& read_options, int64_t memory)
    : index_(or_throw(index_webdataset(folder.string()))), read_(context.runtime(), "video.read", read_options), memory_(memory) {
  if (index_.empty()) throw Error(KINORA_DATA, folder.string() + ": holds no samples; what did the curate job keep?");
}

Sample Clips::sample(int64_t i) { return to_sample(or_throw(read_webdataset(index_[static_cast<size_t>(i)]))); }

std::string Clips::caption(int64_t i) { return std::string(sample(i).text("txt").value_or("")); }

double Clips::fps() {
  const json facts = json::parse(sample(0).text("json").value_or("{}"), nullptr, false);
  return facts.is_object() ? facts.value("fps", 24.0) : 24.0;
}

at::Tensor Clips::frames(int64_t i) {
  if (const auto it = cache_.find(i); it != cache_.end()) return it->second;
  const at::Tensor frames = frames_of_sample(read_(sample(i)));
  while (!order_.empty() && used_ + frames.numel() > memory_) {
    used_ -= cache_.at(order_.front()).numel();
    cache_.erase(order_.front());
    order_.pop_front();
  }
  used_ += frames.numel();
  order_.push_back(i);
  lengths_[i] = frames.size(0);
  return cache_[i] = frames;
}

int64_t Clips::length(int64_t i) {
  const auto it = lengths_.find(i);
  return it != lengths_.end() ? it->second : frames(i).size(0);
}

at::Tensor video_of(const at::Tensor& frames, int64_t first, int64_t count) {
  return frames.narrow(0, first, count).permute({3, 0, 1, 2}).unsqueeze(0).to(at::kFloat).div(127.5).sub(1).contiguous();
}

at::Tensor frames_of(const at::Tensor& video) {
  return video[0].clamp(-1, 1).add(1).mul(127.5).round().to(at::kByte).permute({1, 2, 3, 0}).contiguous();
}

void set_frames(Sample& sample, const at::Tensor& frames) {
  const at::Tensor whole = frames.contiguous();
  const auto* data = whole.data_ptr<uint8_t>();
  sample.set_tensor("frames", {data, data + whole.numel()}, whole.sizes().vec(), KINORA_DL_UINT, 8);
}

int64_t shuffled(int64_t n, int64_t count, uint64_t seed) {
  // The permutation of the epoch, by sorting random keys; stable, so that equal keys keep their order.
  const int64_t epoch = n / count;
  std::vector<double> keys(static_cast<size_t>(count));
  fill_uniform(keys.data(), epoch * count, count, seed, "order");
  std::vector<int64_t> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return keys[static_cast<size_t>(a)] < keys[static_cast<size_t>(b)]; });
  return order[static_cast<size_t>(n % count)];
}

}  // namespace kinora::core
