// The samples of a train job: from the cache that an encode job wrote, or, if that job's input is a table of
// data, windows that are encoded when training takes them.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "core/run/job.hpp"
#include "core/torch/ranks/parallelism.hpp"
#include "plugins/jobs/latents/latents.hpp"
#include "plugins/jobs/loading/lost_samples.hpp"
#include "plugins/jobs/windows/model_outline.hpp"

namespace kinora::core {

// How a training uses its samples.
struct SampleOptions {
  double held_out = 0;             // share of the clips
  int64_t validation_samples = 0;  // at most; 0: the training has no use for them
  int64_t threads = 0;             // of tensor operations where windows are encoded; 0: libtorch's default
  bool are_buckets = false;        // each sample has the size that latent_sizes() says
  ShotCut cut{};                   // of samples from a cache
};

// The samples of a training. [owner-thread]
class SampleStream {
 public:
  virtual ~SampleStream() = default;
  virtual const LatentFacts& facts() const = 0;
  // The n-th of all samples that all ranks ever draw; the same on every rank and in every run.
  virtual LatentData::Item drawn(int64_t n) = 0;
  // One of the training's samples.
  virtual LatentData::Item example() = 0;
  // The samples of the validation: held out, the first drawn if none are.
  virtual size_t validation_size() const = 0;
  virtual LatentData::Item validation(size_t i) = 0;
  // Members of the job's summary: "samples", "held_out" and others.
  virtual nlohmann::json summary() const = 0;
};

// Samples that are read, measured and encoded when training takes them. [owner-thread]
class LiveStream : public SampleStream {
 public:
  // Begins to make the samples that drawn() will be asked for next. stride: samples of one size; those after them are
  // that much further on, and so on; 0: unknown.
  virtual void prepare(const std::vector<int64_t>& numbers, int64_t stride) = 0;
  // The number of sizes that windows may have.
  virtual size_t window_sizes() const = 0;
  // If there are several, the sizes of the latents of these samples, which in buckets they have for certain, and in
  // packed rows as far as is known before they are made; the same on every rank.
  virtual std::vector<LatentSize> latent_sizes(int64_t first, int64_t count) = 0;
  // Seconds for which this object kept its callers waiting since the last call.
  virtual double take_wait() = 0;
  // Bytes of samples that this rank read since the last call.
  virtual int64_t take_bytes() = 0;
  // The samples that this rank could not use, and those that other ranks shared.
  virtual LostSamples& lost() = 0;
  // Returns the counts of the loader so far (DataCounts and LostSamples::counts()).
  virtual nlohmann::json loading() const = 0;
};

class SharedSamples;

// One object, by its interfaces.
struct TrainingSamples {
  std::unique_ptr<SampleStream> stream;
  LiveStream* live = nullptr;  // the stream, if it is one; null: a cache
  SharedSamples* shared =
      nullptr;  // the stream, if ranks that compute on the same samples read them in turns
};

// Throws Error(KINORA_ERROR_INVALID) if several shots are to be joined and the encode job has no cache.
void require_cached(const JobSpec& encode, const ShotCut& cut);

// Opens those of the nearest encode job upstream. Throws Error(KINORA_ERROR_INVALID) if options.held_out
// leaves nothing for training or validation, or if the data are not those of the encode job. parallel: of the
// training; it must outlive them.
TrainingSamples samples_of(const JobView& train, const SampleOptions& options, at::Device device,
                           const Parallelism& parallel);

// The samples of a cache, by their numbers. A clip is held out if the hash of its key falls into the first
// `share` of all hashes, so that adding clips moves none of the others. Windows of one clip, "clip@17", overlap,
// so they are in the same part. Throws Error(KINORA_ERROR_INVALID) if a part is empty that must not be.
struct Split {
  std::vector<int64_t> train, held_out;
};
Split split(const LatentData& data, double share);

}  // namespace kinora::core
