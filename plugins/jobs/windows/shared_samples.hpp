// The samples of ranks that share a model (tensor, context or pipeline parallelism), which all compute on the same
// samples: each rank decodes and encodes a part of them, and at the start of a step all get the others' by an
// all-gather (NeMo: arXiv 2503.12964, section 3.2).
//
// A step's samples go to the ranks in turn, so no rank needs to ask another which are its own. Samples of the steps
// ahead are made meanwhile, by each rank for itself: as many steps as it takes until every rank has a sample to make.
// Transfers happen only at the start of a step, where all ranks are at the same point, so they never meet those of
// the model. Validation samples are kept by whoever needs them, and each rank makes its own.
#pragma once
#include <functional>
#include <map>

#include "core/torch/weights/exchange.hpp"
#include "plugins/jobs/windows/samples.hpp"

namespace kinora::core {

// All ranks of the training call begin_step(), gather(), latent_sizes(), example() and summary() together.
class SharedSamples final : public LiveStream {
 public:
  using Open = std::function<std::unique_ptr<LiveStream>()>;
  // open: opens this rank's own samples. Like all calls that ranks make together: if it fails on one rank, all
  // throw that error, with the rank.
  SharedSamples(const Parallelism& parallel, at::Device device, const Open& open);

  // The samples that this rank draws in a step, by their numbers; none after the last step.
  using NumbersOf = std::function<std::vector<int64_t>(int64_t step)>;
  // Gathers the samples of a step that begins, and prepares those of the steps ahead.
  void begin_step(int64_t step, const NumbersOf& numbers);
  void gather(const std::vector<int64_t>& numbers);

  const LatentFacts& facts() const override { return own_->facts(); }
  // Returns a sample of the last gather().
  LatentItem drawn(int64_t n) override { return gathered_.at(n); }
  // Prepares those that this rank makes; they follow no stride.
  void prepare(const std::vector<int64_t>& numbers, int64_t stride) override;
  size_t window_sizes() const override { return own_->window_sizes(); }
  std::vector<LatentSize> latent_sizes(int64_t first, int64_t count) override;
  // Waits for this rank's samples, and for those of the others.
  double take_wait() override;
  int64_t take_bytes() override { return own_->take_bytes(); }
  LostSamples& lost() override { return own_->lost(); }
  LatentItem example() override;
  size_t validation_size() const override { return own_->validation_size(); }
  LatentItem validation(size_t i) override { return own_->validation(i); }
  nlohmann::json summary() const override { return own_->summary(); }
  nlohmann::json loading() const override { return own_->loading(); }

 private:
  // The rank, within its group, that makes numbers[i]. A step continues where the step before ended: with fewer samples
  // than ranks, too, each rank has its turn.
  size_t maker(const std::vector<int64_t>& numbers, size_t i) const;
  std::vector<int64_t> own(const std::vector<int64_t>& numbers) const;

  Exchange world_, group_;  // all ranks, and those that share the model
  int64_t data_size_;
  std::unique_ptr<LiveStream> own_;
  std::map<int64_t, LatentItem> gathered_;  // by number
  int64_t prepared_ = 0;                    // steps whose samples are being made
  double waited_ = 0;                       // seconds, for other ranks
};

}  // namespace kinora::core
