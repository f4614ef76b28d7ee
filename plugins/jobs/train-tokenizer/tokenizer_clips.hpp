// The clips that a tokenizer is trained on: decoded into memory at the start, or, if the job's input is a table of
// data, window by window in a thread ahead of the training step.
#pragma once
#include <memory>
#include <optional>

#include <ATen/core/Tensor.h>

#include "core/run/job.hpp"
#include "plugins/jobs/loading/lost_samples.hpp"
#include "plugins/jobs/train-tokenizer/train_tokenizer_options.hpp"

namespace kinora::core {

// [owner-thread]
class TokenizerClips {
 public:
  virtual ~TokenizerClips() = default;
  // The first `length` frames of sample n of all that all ranks ever draw, [1, 3, length, H, W] in [-1, 1]: at
  // most the option `frames` of them. The same on every rank and in every run.
  virtual at::Tensor drawn(int64_t n, int64_t length) = 0;
  // Begins to make the samples that drawn() will be asked for next; those after them are `stride` further on, and so
  // on.
  virtual void prepare(int64_t first, int64_t count, int64_t stride) {
    (void)first, (void)count, (void)stride;
  }
  // Seconds for which this object kept its callers waiting since the last call; nothing if it never does.
  virtual std::optional<double> take_wait() { return std::nullopt; }
  // The samples that this rank could not use, and those that other ranks shared; null: they are not read as they are
  // taken.
  virtual LostSamples* lost() { return nullptr; }
  // Returns the counts of the loader so far (DataCounts and LostSamples::counts()); null: nothing is loaded.
  virtual nlohmann::json loading() const { return nullptr; }
  // The clips to evaluate: held out, or else those of the training.
  virtual size_t evaluated_size() const = 0;
  // `frames` frames of one of them, as drawn() gives them.
  virtual at::Tensor evaluated(size_t i) = 0;
  // Members of the job's summary: "clips", "held_out", "failed" and others.
  virtual nlohmann::json summary() const = 0;
};

// The clips of shards. Throws Error(KINORA_ERROR_DATA) if none is usable, Error(KINORA_ERROR_INVALID) if
// options.validation leaves nothing for training or evaluation.
std::unique_ptr<TokenizerClips> stored_clips(JobContext& context, const TrainTokenizerOptions& options);
// The clips of the job's table of data, of which up to `most` are evaluated. Throws Error(KINORA_ERROR_INVALID) if
// options.validation holds out none of them.
std::unique_ptr<TokenizerClips> live_clips(const JobView& job, const TrainTokenizerOptions& options,
                                           size_t most);

}  // namespace kinora::core
