#include "plugins/jobs/windows/samples.hpp"

#include <algorithm>
#include <set>

#include <ATen/ATen.h>

#include "core/base/log.hpp"
#include "core/torch/tensors/torch_guard.hpp"
#include "plugins/jobs/media/clips.hpp"
#include "plugins/jobs/loading/held_out.hpp"
#include "plugins/jobs/windows/live_samples.hpp"
#include "plugins/jobs/windows/shared_samples.hpp"

namespace kinora::core {
namespace {

class CachedSamples final : public SampleStream {
 public:
  CachedSamples(const std::filesystem::path& folder, const SampleOptions& options, uint64_t seed)
      : data_(folder, options.cut),
        joins_(options.cut.shots > 1),
        seed_(seed),
        parts_(split(data_, options.held_out)) {
    const auto& held_out = parts_.held_out;
    validation_ = held_out.empty() ? parts_.train : held_out;
    if (!held_out.empty())  // those with the lowest hashes
      std::sort(validation_.begin(), validation_.end(), [&](int64_t a, int64_t b) {
        return std::pair(hash_of(data_.key(a)), a) < std::pair(hash_of(data_.key(b)), b);
      });
    validation_.resize(std::min(validation_.size(), static_cast<size_t>(options.validation_samples)));
  }

  const LatentFacts& facts() const override { return data_.facts(); }
  LatentData::Item drawn(int64_t n) override {
    const int64_t at = shuffled(n, static_cast<int64_t>(parts_.train.size()), seed_);
    return item(parts_.train[static_cast<size_t>(at)]);
  }
  LatentData::Item example() override { return item(parts_.train[0]); }
  size_t validation_size() const override { return validation_.size(); }
  LatentData::Item validation(size_t i) override { return item(validation_[i]); }
  nlohmann::json summary() const override {
    nlohmann::json out{{"samples", data_.size()}, {"held_out", parts_.held_out.size()}};
    if (joins_) out["windows_left_out"] = data_.windows_left_out();
    return out;
  }

 private:
  // A step with such a sample is skipped; this says which one it is.
  LatentData::Item item(int64_t i) {
    auto out = data_.item(i);
    if (out.latent.defined() && out.latent.is_floating_point() &&
        !at::isfinite(out.latent).all().item<bool>() && said_.insert(i).second)
      log_warn("sample {}: its latent has values that are not finite; run the encode job from scratch",
               data_.key(i));
    return out;
  }

  LatentData data_;
  const bool joins_;  // several windows to a sample
  std::set<int64_t> said_;
  uint64_t seed_;
  Split parts_;
  std::vector<int64_t> validation_;
};

}  // namespace

Split split(const LatentData& data, double share) {
  Split out;
  for (int64_t i = 0; i < data.size(); ++i) {
    const std::string& key = data.key(i);
    (hash_share(key.substr(0, key.rfind('@'))) < share ? out.held_out : out.train).push_back(i);
  }
  if (out.train.empty() || (share > 0 && out.held_out.empty()))
    raise(
        KINORA_ERROR_INVALID,
        "validation = {} leaves {} of {} samples to training and {} to validation; choose another share, or "
        "encode more clips",
        share, out.train.size(), data.size(), out.held_out.size());
  return out;
}

void require_cached(const JobSpec& encode, const ShotCut& cut) {
  if (cut.shots > 1 && encode.data)
    raise(KINORA_ERROR_INVALID,
          "shots joins windows of a latent cache, and job '{}' encodes a table of data when training takes "
          "it; give that job a shard job as its input, or leave shots out",
          encode.name);
}

TrainingSamples samples_of(const JobView& train, const SampleOptions& options, at::Device device,
                           const Parallelism& parallel) {
  const JobSpec& encode = train.need_upstream("encode");
  if (!encode.data)
    return {.stream = std::make_unique<CachedSamples>(train.folder_of(encode), options,
                                                      static_cast<uint64_t>(train.run().seed))};
  require_cached(encode, options.cut);
  const auto open = [&] {
    return std::make_unique<LiveSamples>(JobView(train.runtime(), train.run(), encode), options, device);
  };
  TrainingSamples out;
  if (parallel.of_sample().size == 1) {
    auto live = open();
    out.live = live.get();
    out.stream = std::move(live);
  } else {
    auto shared = std::make_unique<SharedSamples>(parallel, device, open);
    out.live = out.shared = shared.get();
    out.stream = std::move(shared);
  }
  return out;
}

}  // namespace kinora::core
