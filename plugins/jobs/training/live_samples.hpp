// The samples of a training whose encode job has a table of data: one thread decodes and encodes them ahead of the
// training step.
#pragma once
#include <atomic>
#include <map>
#include <vector>

#include "plugins/jobs/training/live/encoded_windows.hpp"
#include "plugins/jobs/training/live/live_split.hpp"
#include "plugins/jobs/training/live/made_ahead.hpp"
#include "plugins/jobs/training/samples.hpp"

namespace kinora::core {

class LiveSamples final : public TrainingSamples {
 public:
  LiveSamples(const JobView& encode, const TrainOptions& options, at::Device device);

  const LatentFacts& facts() const override { return facts_; }
  LatentItem drawn(int64_t n) override { return ahead_.get({static_cast<uint64_t>(n), false}); }
  void prepare(int64_t first, int64_t count) override { ahead_.prepare(first, count); }
  size_t validation_size() const override { return validation_.size(); }
  LatentItem validation(size_t i) override;
  std::optional<double> take_wait() override { return ahead_.take_wait(); }
  nlohmann::json summary() const override;

 private:
  // In the thread of ahead_.
  MadeAhead<LatentItem>::Make open(const JobView& encode, const TrainOptions& options, at::Device device);
  // Throws Error(KINORA_ERROR_INVALID) if the encode job measured the scale on data of another digest.
  static void require_same(const JobView& encode, const std::string& digest);

  LatentFacts facts_;
  LiveSplit split_;
  std::vector<uint64_t> validation_;   // slots of its clips, each another clip
  std::map<size_t, LatentItem> kept_;  // of the validation
  uint64_t pass_ = 0;
  std::atomic<int64_t> failed_ = 0;
  MadeAhead<LatentItem> ahead_;  // last: its thread uses the others
};

}  // namespace kinora::core
