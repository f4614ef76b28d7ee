// Error recycling (LongLive 2.0; Stable Video Infinity, arXiv 2510.09212). A model that learns with clean
// chunks before it meets its own errors only when it generates. So a bank keeps errors of its predictions,
// and training adds them to what the model sees, with the clean latent still as its target.
//
// A sample has the clean latent x0, noise n and levels s. The model sees x = (1 - s) x' + s n' after the
// clean stream c, and predicts the velocity v, whose target is n' - x0. Its errors are
//   of the latent  x - s v - x0
//   of the noise   (1 - s) (v - (n' - x0))
// and c = x0 + an error of the latent, x' likewise, n' = n + an error of the noise, each times a random
// scale. The errors of a chunk come from chunks at the same position, for x' and n' also of the same bucket
// of levels. All draws are functions of (seed, sample), and all ranks hold the same bank: it changes at the
// end of a step.
//
// B samples, C channels, T latent frames in P chunks of k (the first perhaps of
// another length), H rows, W columns.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/torch/weights/exchange.hpp"
#include "plugins/jobs/training/objective.hpp"
#include "plugins/jobs/training/options/train_options.hpp"

namespace kinora::core {

// LongLive 2.0's numbers, except that it keeps 500 errors a bucket, of each rank's own.
struct ErrorRecycling {
  double context = 0.9, latent = 0.9,
         noise = 0.01;                  // shares of the samples to whose c, x' and n' errors are added
  double clean = 0.2;                   // share of the samples to which none is added
  double scale = 0.3;                   // an error's factor is between 1 - scale and 1 + scale
  int64_t start = 50;                   // steps before any is added; errors are stored from the first on
  int64_t buckets = 50, entries = 500;  // of a position; each bucket has its share of the entries
};
// text: a JSON object with some of these members; "": no recycling. Throws Error(KINORA_ERROR_INVALID) that
// names the member.
std::optional<ErrorRecycling> recycling_of(const std::string& text);
// The option error_recycling. sizes: of windows; stages: of a pipeline. Throws Error(KINORA_ERROR_INVALID)
// also if this training cannot recycle errors.
std::optional<ErrorRecycling> recycling_of(const TrainOptions&, const LossInstance&, size_t sizes,
                                           int64_t stages);

// [owner-thread]
class ErrorBank {
 public:
  ErrorBank(const ErrorRecycling& how, Chunks lengths, uint64_t seed)
      : how_(how), lengths_(lengths), seed_(seed) {}

  struct Injected {
    Disturbed streams;
    at::Tensor noise;   // n'
    at::Tensor levels;  // float64 [B, T] on the CPU
  };
  // latent, noise [B, C, T, H, W], levels [B] or [B, T]; samples: their numbers; step: steps done.
  Injected injected(const at::Tensor& latent, const at::Tensor& noise, const at::Tensor& levels,
                    const std::vector<int64_t>& samples, int64_t step) const;
  // Notes the finite errors of predictions, which are `made.streams.prediction` now. It notes one in ten of the
  // samples to which none was added, since their errors are small.
  void note(const at::Tensor& latent, const Injected& made, const std::vector<int64_t>& samples,
            int64_t step);
  // Stores the noted errors of all ranks that hold different samples, in the order of the samples.
  // Collective.
  void store(const Exchange& data_ranks);
  int64_t size() const;

  // Whole, the same on every rank: for each position p "errors.p" bfloat16 [n, 2, C, k, H, W], of the latent
  // and of the noise, and "buckets.p" int64 [n].
  NamedTensors state() const;
  void restore(const NamedTensors& state);

 private:
  using Bucket = std::vector<at::Tensor>;  // bfloat16 [2, C, k, H, W] on the CPU
  struct Noted {
    at::Tensor errors;  // bfloat16 [2, C, T, H, W]
    at::Tensor levels;  // float64 [T]
  };
  class Draws;
  int64_t bucket_of(double level) const;
  int64_t chunks(int64_t frames) const { return lengths_.of(frames - 1) + 1; }
  int64_t frames_of(int64_t position, int64_t frames) const {
    return std::min(lengths_.begin(position + 1), frames) - lengths_.begin(position);
  }
  void store(int64_t sample, const Noted& noted);

  const ErrorRecycling how_;
  const Chunks lengths_;
  const uint64_t seed_;
  std::vector<std::vector<Bucket>> positions_;  // P of `buckets`
  std::map<int64_t, Noted> noted_;              // by sample
};

}  // namespace kinora::core
