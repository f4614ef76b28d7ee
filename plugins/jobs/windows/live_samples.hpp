// The samples of a training whose encode job has a table of data: one thread decodes and encodes them ahead of the
// training step.
#pragma once
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "plugins/jobs/windows/encoded_windows.hpp"
#include "plugins/jobs/windows/live_split.hpp"
#include "plugins/jobs/windows/made_ahead.hpp"
#include "plugins/jobs/windows/samples.hpp"

namespace kinora::core {

class LiveSamples final : public LiveStream {
 public:
  LiveSamples(const JobView& encode, const SampleOptions& options, at::Device device);

  const LatentFacts& facts() const override { return facts_; }
  LatentItem drawn(int64_t n) override;
  LatentItem example() override { return drawn(0); }
  void prepare(const std::vector<int64_t>& numbers, int64_t stride) override;
  size_t window_sizes() const override { return sizes_; }
  std::vector<LatentSize> latent_sizes(int64_t first, int64_t count) override;
  size_t validation_size() const override { return validation_.size(); }
  LatentItem validation(size_t i) override;
  double take_wait() override { return ahead_.take_wait(); }
  int64_t take_bytes() override;
  LostSamples& lost() override { return windows_->lost(); }
  nlohmann::json summary() const override;
  nlohmann::json loading() const override { return windows_->loading(); }

 private:
  enum class What { train, validation, sizes };
  struct Wanted {
    uint64_t slot;
    What what;
    int64_t count = 1;  // slots whose sizes are asked for
    auto operator<=>(const Wanted&) const = default;
  };
  struct Item {
    LatentItem sample;
    std::vector<LatentSize> sizes;  // instead of a sample
  };
  using Ahead = MadeAhead<Wanted, Item>;

  // Both in the thread of ahead_.
  Ahead::Make open(const JobView& encode, const SampleOptions& options, at::Device device);
  Item make(EncodedWindows& windows, const Wanted& wanted) const;
  int64_t bytes_read() const;
  // The turns that begin with the numbers.
  SlotTurns turns_of(const std::vector<int64_t>& numbers, int64_t stride);
  // Throws Error(KINORA_ERROR_INVALID) if the encode job measured the scale on data of another digest.
  static void require_same(const JobView& encode, const std::string& digest);

  LatentFacts facts_;
  LiveSplit split_;
  size_t sizes_;                       // of windows
  bool are_buckets_;                   // each sample has the size that latent_sizes() says
  std::vector<uint64_t> validation_;   // slots of its clips, each another clip
  std::map<size_t, LatentItem> kept_;  // of the validation
  uint64_t pass_ = 0;
  std::shared_ptr<EncodedWindows> windows_;  // its any-thread functions only
  size_t row_ = 0;                           // slots of the last row among those of turns_
  int64_t bytes_ = 0;                        // read before the last take_bytes()
  mutable std::mutex mutex_;                 // of turns_
  SlotTurns turns_;                          // of the training
  Ahead ahead_;                              // last: its thread uses the others
};

}  // namespace kinora::core
