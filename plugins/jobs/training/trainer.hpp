// The training loop that all training jobs share: gradients of microbatches, clipping, AdamW, averages, and
// what is logged of each step. What it keeps on disk is in trainer_state.cpp.
#pragma once
#include <functional>
#include <memory>
#include <optional>

#include "plugins/jobs/training/options/training.hpp"
#include "core/torch/context/network.hpp"
#include "core/torch/context/parallelism.hpp"
#include "plugins/jobs/training/balance.hpp"
#include "plugins/jobs/training/optimizer.hpp"
#include "core/torch/weights/sigma_losses.hpp"
#include "plugins/jobs/training/tensorboard.hpp"
#include "core/torch/context/throughput.hpp"
#include "core/torch/weights/checkpoint_writer.hpp"

namespace kinora::core {

// What one microbatch gives: the sum of its samples' losses, divided by the step's global number of samples,
// with its graph; figures to log, and losses by noise level, added up the same way.
struct MicroLoss {
  at::Tensor loss;
  std::map<std::string, double> figures;
  SigmaLosses by_sigma;
  double loss_share = 1;  // of its tokens, those that carry a loss
};

// Throws Error(KINORA_INVALID) if `batch` is no whole number of samples for each microbatch of each of so
// many ranks.
void require_batch(const OptimizerOptions&, int64_t data_ranks);

class Trainer {
 public:
  // Loads the job's latest checkpoint if there is one, else options.weights.
  Trainer(JobContext&, Network&, Parallelism&, const OptimizerOptions&);

  // Called after each step on every rank, before its line is logged: adds to the line, and returns whether
  // the line must be logged whatever log_every says. `step`: steps done.
  std::function<bool(int64_t step, nlohmann::json& line)> on_step;
  // What the job keeps beside the network, such as a critic: asked for on every rank with every checkpoint,
  // in copies of its own; and what the checkpoint that training goes on from had (empty: none).
  std::function<NamedTensors()> job_state;
  const NamedTensors& restored_job_state() const { return restored_; }
  // What speed is measured by: flops_per_sample may be set before run(); peak_flops is options.peak_flops, or
  // measured.
  Throughput throughput;
  // Called while a microbatch is computed, with the samples of the one that follows; may be null.
  std::function<void(int64_t first, int64_t count)> prepare;
  // Tokens of this rank's forwards since it was asked last; null: unknown.
  std::function<TokenMeter::Count()> take_tokens;
  // Frames that this rank encoded since it was asked last; null: none.
  std::function<int64_t()> take_encoded;

  // micro_loss(first, count): samples [first, first + count) in the global order of all samples ever drawn,
  // of which this rank computes what it is given. Ends with options.steps done, with Error(KINORA_CANCELLED)
  // after a checkpoint, or with Error(KINORA_FAILED) when options.max_skipped steps in a row were not finite.
  void run(const std::function<MicroLoss(int64_t first, int64_t count)>& micro_loss);

  // Runs f with the first averages, which later jobs will use, as the network's weights.
  void with_average(const std::function<void()>& f);
  // A PNG file for TensorBoard. On rank 0; nothing elsewhere.
  void picture(int64_t step, const std::string& tag, const std::filesystem::path& png);

  // The first averages become the network's weights, for what comes after training.
  void use_average();
  // Writes weights.safetensors of the job's folder: the network's weights; and weights.ema-DECAY.safetensors;
  // as shards where they are large. Of a network with LoRA also adapter/, and the weights are with the
  // adapter in them, for what knows of none. On every rank.
  void save_weights();
  // What every training's summary says.
  nlohmann::json summary() const;

 private:
  using Micro = std::function<MicroLoss(int64_t, int64_t)>;
  void gradients(const Micro& micro_loss, nlohmann::json& line);
  void update(nlohmann::json& line);
  // Of each piece, 1 / ranks that hold its numbers.
  std::function<double(const Leaf&, const Piece&)> shares() const;
  void skip(nlohmann::json& line);
  void measure(nlohmann::json& line, double seconds, int64_t tokens);
  void log(const nlohmann::json& line);
  bool logs(int64_t step) const { return step % options_.log_every == 0 || step == options_.steps; }
  void fail_if_stuck() const;
  // Whether the run was asked to stop; writes the checkpoint that is due.
  bool keep();

  void save();
  void restore(const std::filesystem::path& folder);
  TensorFile weights_file(const std::string& name, const std::vector<at::Tensor>& per_leaf) const;
  std::filesystem::path checkpoints() const { return context_.folder() / "checkpoints"; }

  JobContext& context_;
  Network& network_;
  Parallelism& parallel_;
  OptimizerOptions options_;
  AdamW optimizer_;
  std::vector<Ema> averages_;
  Exchange exchange_;
  CheckpointWriter writer_;
  std::optional<TensorBoard> board_;
  bool averaged_ = false;  // the first averages and the network's weights have changed places
  int64_t step_ = 0, skipped_ = 0, in_a_row_ = 0;  // step_: steps done
  int64_t tokens_ = 0;                             // of the step, over all ranks
  double own_tokens_ = 0, own_loss_tokens_ = 0;    // of the step, on this one
  Balance balance_{parallel_};
  double loss_ = 0;  // of the last finite step, also when it was done before a resume
  SigmaLosses by_sigma_, by_sigma_of_step_;
  NamedTensors restored_;
  double seconds_per_step_ = 0, saving_ = 0,
         running_ = 0;  // seconds that training waited for checkpoints, and all
};

}  // namespace kinora::core
