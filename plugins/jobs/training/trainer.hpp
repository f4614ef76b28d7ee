// The training loop that all training jobs share: gradients of microbatches, clipping, the optimizer, averages, and
// the log of each step. Its files are written in trainer_state.cpp.
#pragma once
#include <chrono>
#include <functional>
#include <memory>
#include <optional>

#include "core/torch/context/network.hpp"
#include "core/torch/context/parallelism.hpp"
#include "core/torch/context/throughput.hpp"
#include "core/torch/weights/checkpoint_writer.hpp"
#include "core/torch/weights/sigma_losses.hpp"
#include "plugins/jobs/curation/pipeline.hpp"
#include "plugins/jobs/loading/lost_samples.hpp"
#include "plugins/jobs/training/balance.hpp"
#include "plugins/jobs/training/ema.hpp"
#include "plugins/jobs/training/optimizer.hpp"
#include "plugins/jobs/training/options/training.hpp"
#include "plugins/jobs/training/rounding.hpp"
#include "plugins/jobs/training/schedule.hpp"
#include "plugins/jobs/training/tensorboard.hpp"

namespace kinora::core {

// The result of one microbatch: the sum of its samples' losses, divided by the step's global number of
// samples, with its graph; and figures to log, and losses by noise level, added up the same way.
struct MicroLoss {
  at::Tensor loss;
  std::map<std::string, double> figures;
  SigmaLosses by_sigma;
  double loss_share = 1;  // share of its tokens that carry a loss
};

// Throws Error(KINORA_ERROR_INVALID) unless `batch` gives each microbatch on each of this many ranks a whole
// number of samples.
void require_batch(const OptimizerOptions&, int64_t data_ranks);

class Trainer {
 public:
  // Loads the job's latest whole checkpoint if there is one, else options.weights.
  Trainer(JobContext&, Network&, Parallelism&, const OptimizerOptions&);

  // Called after each step on every rank, before its line is logged: adds to the line, and returns whether
  // the line must be logged whatever log_every is. `step`: steps done.
  std::function<bool(int64_t step, nlohmann::json& line)> on_step;
  // Further state of the job, such as a critic: called on every rank for every checkpoint, returns copies;
  // and the same state from the checkpoint that training resumes from (empty: none).
  std::function<NamedTensors()> job_state;
  const NamedTensors& restored_job_state() const { return restored_; }
  // Figures of the steps for the job's summary, such as the latest validation loss: checkpoints store them.
  nlohmann::json facts = nlohmann::json::object();
  // Whether training continues from a checkpoint.
  bool is_resumed() const { return step_ > 0; }
  // Called on every rank before the first microbatch of each step; may be null. step: steps done.
  std::function<void(int64_t step)> begin_step;
  // Basis of the measured speed: flops_per_sample may be set before run(); peak_flops is options.peak_flops,
  // or measured.
  Throughput throughput;
  // The samples of the microbatch [first, first + count), in their order there; null: these.
  std::function<std::vector<int64_t>(int64_t first, int64_t count)> numbers;
  // Called while a microbatch is computed, with the samples of the next one; may be null.
  std::function<void(int64_t first, int64_t count)> prepare;
  // Tokens of this rank's forwards since the last call; null: unknown.
  std::function<TokenMeter::Count()> take_tokens;
  // Frames that this rank encoded since the last call; null: none.
  std::function<int64_t()> take_encoded;
  // Bytes of samples that this rank read since the last call, logged as `data_bytes` of all ranks; null, or nothing:
  // none are read while it trains.
  std::function<std::optional<int64_t>()> take_data_bytes;
  // The samples that this rank could not use, which all ranks share after each step, so that the limits of failed ones
  // hold for the training, and which checkpoints store; null: none are read while it trains.
  LostSamples* lost = nullptr;
  // What the loading of data has done so far, for metrics.prom of rank 0; null, or null from it: nothing is loaded.
  std::function<nlohmann::json()> loading;

  // micro_loss(first, count): samples [first, first + count) in the global order of all samples ever drawn,
  // of which this rank computes its part. Ends with options.steps done, with Error(KINORA_ERROR_CANCELLED)
  // after a checkpoint, or with Error(KINORA_ERROR_FAILED) when options.max_skipped steps in a row were not
  // finite.
  void run(const std::function<MicroLoss(int64_t first, int64_t count)>& micro_loss);

  // Runs f with the first averages, which later jobs will use, as the network's weights.
  void with_average(const std::function<void()>& f);
  // Adds a PNG file to TensorBoard on rank 0; does nothing elsewhere.
  void picture(int64_t step, const std::string& tag, const std::filesystem::path& png);

  // The first averages become the network's weights, for the steps after training.
  void use_average();
  // Writes the network's weights to weights.safetensors in the job's folder, and
  // weights.ema-DECAY.safetensors; as shards if they are large. For a network with LoRA it also writes
  // adapter/, and merges the adapter into the weights for readers without LoRA support. On every rank.
  void save_weights();
  // Members of every training's summary.
  nlohmann::json summary() const;

 private:
  using Micro = std::function<MicroLoss(int64_t, int64_t)>;
  void gradients(const Micro& micro_loss, nlohmann::json& line);
  void update(nlohmann::json& line);
  // For each piece, 1 / number of ranks that hold it.
  std::function<double(const Leaf&, const Piece&)> shares() const;
  void skip(nlohmann::json& line);
  void measure(nlohmann::json& line, double seconds, int64_t tokens);
  void log(const nlohmann::json& line);
  // Writes metrics.prom, at most once a second; on rank 0.
  void publish(const nlohmann::json& line);
  bool logs(int64_t step) const { return step % options_.log_every == 0 || step == options_.steps; }
  void fail_if_stuck() const;
  // at_end: of all reasons, and logs them.
  void share_lost(bool at_end);
  // Whether the run was asked to stop; writes the checkpoint that is due.
  bool keep();

  Schedule schedule(int64_t steps) const;
  void say_resumed(int64_t steps_before) const;
  void save();
  void restore(const std::filesystem::path& folder);
  TensorFile weights_file(const std::string& name, const std::vector<at::Tensor>& per_leaf) const;
  std::filesystem::path checkpoints() const { return context_.folder() / "checkpoints"; }

  JobContext& context_;
  Network& network_;
  Parallelism& parallel_;
  OptimizerOptions options_;
  Exchange exchange_;
  Optimizer optimizer_;
  std::vector<Ema> averages_;
  CheckpointWriter writer_;
  std::optional<TensorBoard> board_;
  Live live_;
  std::chrono::steady_clock::time_point published_;
  bool averaged_ = false;                          // the first averages and the network's weights are swapped
  int64_t step_ = 0, skipped_ = 0, in_a_row_ = 0;  // step_: steps done
  int64_t tokens_ = 0;                             // of the step, over all ranks
  double own_tokens_ = 0, own_loss_tokens_ = 0;    // of the step, on this rank
  Balance balance_{parallel_};
  RoundingMeter rounding_{network_, parallel_};
  double loss_ = 0;  // of the last finite step, also from before a resume
  SigmaLosses by_sigma_, by_sigma_of_step_;
  NamedTensors restored_;
  nlohmann::json restored_lost_;
  double seconds_per_step_ = 0, saving_ = 0,
         running_ = 0;  // seconds that training waited for checkpoints, and in total
};

}  // namespace kinora::core
