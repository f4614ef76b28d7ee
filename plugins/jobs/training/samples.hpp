// The samples of a train job: from the cache that an encode job wrote, or, if that job's input is a table of
// data, windows that are encoded when training takes them.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/run/job.hpp"
#include "core/runtime/model_outline.hpp"
#include "core/torch/context/parallelism.hpp"
#include "core/torch/media/latents.hpp"
#include "plugins/jobs/loading/lost_samples.hpp"
#include "plugins/jobs/training/options/training.hpp"

namespace kinora::core {

// [owner-thread]
class TrainingSamples {
 public:
  virtual ~TrainingSamples() = default;
  virtual const LatentFacts& facts() const = 0;
  // The n-th of all samples that all ranks ever draw; the same on every rank and in every run.
  virtual LatentData::Item drawn(int64_t n) = 0;
  // Whether the ranks that compute on the same samples read them in turns. Then all ranks of the training call
  // begin_step(), gather(), latent_sizes(), example() and summary() together, and drawn() has the samples of the
  // last gather().
  virtual bool are_shared() const { return false; }
  // The samples that this rank draws in a step, by their numbers; none after the last step.
  using NumbersOf = std::function<std::vector<int64_t>(int64_t step)>;
  // Gathers the samples of a step that begins.
  virtual void begin_step(int64_t step, const NumbersOf& numbers) { (void)step, (void)numbers; }
  virtual void gather(const std::vector<int64_t>& numbers) { (void)numbers; }
  // Begins to make the samples that drawn() will be asked for next. stride: samples of one size; those after them are
  // that much further on, and so on; 0: unknown.
  virtual void prepare(const std::vector<int64_t>& numbers, int64_t stride) { (void)numbers, (void)stride; }
  // The number of sizes that windows may have.
  virtual size_t window_sizes() const { return 1; }
  // If there are several, the sizes of the latents of these samples, which in buckets they have for certain, and in
  // packed rows as far as is known before they are made; the same on every rank.
  virtual std::vector<LatentSize> latent_sizes(int64_t first, int64_t count) {
    (void)first;
    return std::vector<LatentSize>(static_cast<size_t>(count), {1, 1, 1});
  }
  // Seconds for which this object kept its callers waiting since the last call; nothing if it never does.
  virtual std::optional<double> take_wait() { return std::nullopt; }
  // Bytes of samples that this rank read since the last call; nothing if they are not read as they are taken.
  virtual std::optional<int64_t> take_bytes() { return std::nullopt; }
  // The samples that this rank could not use, and those that other ranks shared; null: they are not read as they are
  // taken.
  virtual LostSamples* lost() { return nullptr; }
  // One of the training's samples.
  virtual LatentData::Item example() { return drawn(0); }
  // The samples of the validation: held out, the first drawn if none are.
  virtual size_t validation_size() const = 0;
  virtual LatentData::Item validation(size_t i) = 0;
  // Members of the job's summary: "samples", "held_out" and others.
  virtual nlohmann::json summary() const = 0;
  // Returns the counts of the loader so far (DataCounts and LostSamples::counts()); null: nothing is loaded.
  virtual nlohmann::json loading() const { return nullptr; }
};

// Opens those of the nearest encode job upstream. Throws Error(KINORA_ERROR_INVALID) if options.validation
// leaves nothing for training or validation, or if the data are not those of the encode job. parallel: of the
// training; it must outlive them.
std::unique_ptr<TrainingSamples> samples_of(const JobView& train, const TrainOptions& options,
                                            at::Device device, const Parallelism& parallel);

// The samples of a cache, by their numbers. A clip is held out if the hash of its key falls into the first
// `share` of all hashes, so that adding clips moves none of the others. Windows of one clip, "clip@17", overlap,
// so they are in the same part. Throws Error(KINORA_ERROR_INVALID) if a part is empty that must not be.
struct Split {
  std::vector<int64_t> train, held_out;
};
Split split(const LatentData& data, double share);

}  // namespace kinora::core
