#include "plugins/jobs/training/samples.hpp"

#include <algorithm>
#include <set>

#include "core/base/digest.hpp"
#include "core/torch/tensors/torch_guard.hpp"
#include "plugins/jobs/training/media/clips.hpp"
#include "plugins/jobs/training/media/live_windows.hpp"

namespace kinora::core {
namespace {

class CachedSamples final : public TrainingSamples {
 public:
  CachedSamples(const std::filesystem::path& folder, const TrainOptions& options, uint64_t seed)
      : data_(folder), seed_(seed), parts_(split(data_, options.validation)) {
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
    return data_.item(parts_.train[static_cast<size_t>(at)]);
  }
  LatentData::Item example() override { return data_.item(parts_.train[0]); }
  size_t validation_size() const override { return validation_.size(); }
  LatentData::Item validation(size_t i) override { return data_.item(validation_[i]); }
  nlohmann::json summary() const override {
    return {{"samples", data_.size()}, {"held_out", parts_.held_out.size()}};
  }

 private:
  LatentData data_;
  uint64_t seed_;
  Split parts_;
  std::vector<int64_t> validation_;
};

class LiveSamples final : public TrainingSamples {
 public:
  LiveSamples(const JobView& encode, const TrainOptions& options, at::Device device)
      : facts_(LatentFacts::of_folder(encode.folder_of(encode.spec()))),
        windows_(encode, device),
        share_(options.validation) {
    find_validation(options);
  }

  const LatentFacts& facts() const override { return facts_; }
  LatentData::Item drawn(int64_t n) override {
    auto window = windows_.at(static_cast<uint64_t>(n),
                              [this](const std::string& key) { return hash_share(key) >= share_; });
    return facts_.item(std::move(window.key), std::move(window.tensors));
  }
  size_t validation_size() const override { return validation_.size(); }
  LatentData::Item validation(size_t i) override {
    auto& kept = validation_[i];
    if (!kept.item) {
      auto window = windows_.at(
          kept.slot, [&](const std::string& key) { return key == kept.key || is_validation(key); });
      kept.item = facts_.item(std::move(window.key), std::move(window.tensors));
    }
    return *kept.item;
  }
  nlohmann::json summary() const override {
    return {{"samples", windows_.order().pass()}, {"held_out", held_out_}, {"failed", windows_.failed()}};
  }

 private:
  bool is_validation(const std::string& key) const { return share_ == 0 || hash_share(key) < share_; }

  // The first clips of the order that are held out.
  void find_validation(const TrainOptions& options) {
    const bool wanted = options.validation_every > 0 || options.sample_every > 0;
    const uint64_t most = wanted ? windows_.order().pass() : 0;
    std::set<std::string> seen;
    for (uint64_t slot = 0;
         slot < most && validation_.size() < static_cast<size_t>(options.validation_samples); ++slot)
      if (const std::string key = windows_.key(slot); is_validation(key) && seen.insert(key).second)
        validation_.push_back({slot, key, {}});
    held_out_ = share_ > 0 ? validation_.size() : 0;
    if (wanted && validation_.empty())
      raise(KINORA_ERROR_INVALID,
            "validation = {} leaves none of {} samples to validation; choose another share", share_, most);
  }

  struct Kept {
    uint64_t slot;
    std::string key;
    std::optional<LatentData::Item> item;  // encoded when it is first needed
  };
  LatentFacts facts_;
  LiveWindows windows_;
  double share_;
  std::vector<Kept> validation_;
  size_t held_out_ = 0;
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

uint64_t hash_of(const std::string& key) { return std::stoull(sha256(key).substr(0, 13), nullptr, 16); }

double hash_share(const std::string& key) {
  constexpr double kHashes = 1ull << 52;
  return static_cast<double>(hash_of(key)) / kHashes;
}

std::unique_ptr<TrainingSamples> samples_of(const JobView& train, const TrainOptions& options,
                                            at::Device device) {
  const JobSpec& encode = train.need_upstream("encode");
  if (encode.data)
    return std::make_unique<LiveSamples>(JobView(train.runtime(), train.run(), encode), options, device);
  return std::make_unique<CachedSamples>(train.folder_of(encode), options,
                                         static_cast<uint64_t>(train.run().seed));
}

}  // namespace kinora::core
