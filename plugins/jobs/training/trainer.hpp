// The training loop that all training jobs share: gradients of microbatches, clipping, the optimizers, averages, and
// the log of each step. The job's TrainingTask computes a step. Its files are written in trainer_state.cpp.
#pragma once
#include <chrono>
#include <functional>
#include <memory>
#include <optional>

#include "core/torch/network/network.hpp"
#include "core/torch/network/throughput.hpp"
#include "core/torch/ranks/parallelism.hpp"
#include "plugins/jobs/live/live.hpp"
#include "plugins/jobs/training/balance.hpp"
#include "plugins/jobs/training/checkpoint_writer.hpp"
#include "plugins/jobs/training/options/train_options.hpp"
#include "plugins/jobs/training/rounding.hpp"
#include "plugins/jobs/training/schedule.hpp"
#include "plugins/jobs/training/sigma_losses.hpp"
#include "plugins/jobs/training/tensorboard.hpp"
#include "plugins/jobs/training/trained.hpp"
#include "plugins/jobs/training/training_task.hpp"

namespace kinora::core {

// Throws Error(KINORA_ERROR_INVALID) unless `batch` gives each microbatch on each of this many ranks a whole
// number of samples.
void require_batch(const OptimizerOptions&, int64_t data_ranks);

// How a training's result is trained by these options.
Trained::How how_of(const OptimizerOptions&);

class Trainer {
 public:
  // trained: the networks that the training changes, borrowed; the first is its result. A step changes those that are
  // due, each by its own loss and all from the weights before the step.
  // Loads the job's latest whole checkpoint if there is one, else options.weights into the result. Throws
  // Error(KINORA_ERROR_INVALID) for several networks in a pipeline, whose schedule is of one.
  Trainer(JobContext&, TrainingTask&, std::vector<Trained*> trained, Parallelism&, const OptimizerOptions&);

  // Figures of the steps for the job's summary, such as the latest validation loss: checkpoints store them.
  nlohmann::json facts = nlohmann::json::object();

  // Ends with options.steps done, with Error(KINORA_ERROR_CANCELLED)
  // after a checkpoint, or with Error(KINORA_ERROR_FAILED) when options.max_skipped steps in a row of one of the
  // networks were not finite.
  void run();

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
  void begin_run();
  // The samples of this rank in a microbatch of this step: the number of the first one, and their count.
  int64_t first_sample(int64_t microbatch) const;
  int64_t samples() const { return options_.batch / options_.accumulate / parallel_.data_size(); }
  at::Device device() const { return network_.chain().leaves().at(0).tensor.device(); }
  void begin(kinora_pass pass);
  void prepare_after(int64_t microbatch);
  // The indices of the networks that step in this step.
  std::vector<size_t> due() const;
  // Gradients of this network's weights alone are recorded; null: those of all.
  void record_only(const Trained* one);
  void gradients(nlohmann::json& line);
  void update(nlohmann::json& line);
  void keep_loss(const nlohmann::json& line);
  void measure(nlohmann::json& line, double seconds, int64_t tokens);
  void log(const nlohmann::json& line);
  // Writes metrics.prom, at most once a second; on rank 0.
  void publish(const nlohmann::json& line);
  bool logs(int64_t step) const { return step % options_.log_every == 0 || step == options_.steps; }
  void fail_if_stuck() const;
  void fail_if_nothing_learnt() const;
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
  TrainingTask& task_;
  const std::vector<Trained*> trained_;
  Trained& result_;
  Network& network_;  // the result's
  Parallelism& parallel_;
  OptimizerOptions options_;
  Exchange exchange_;
  Throughput throughput_;
  CheckpointWriter writer_;
  std::optional<TensorBoard> board_;
  Live live_;
  std::chrono::steady_clock::time_point published_;
  bool averaged_ = false;                        // the first averages and the network's weights are swapped
  int64_t step_ = 0, skipped_ = 0;               // step_: steps done
  int64_t tokens_ = 0;                           // of the step, over all ranks
  double own_tokens_ = 0, own_loss_tokens_ = 0;  // of the step, on this rank
  Balance balance_{parallel_};
  RoundingMeter rounding_{network_, parallel_};
  double loss_ = 0;  // of the last finite step, also from before a resume
  SigmaLosses by_sigma_, by_sigma_of_step_;
  nlohmann::json restored_lost_;
  double seconds_per_step_ = 0, saving_ = 0,
         running_ = 0;  // seconds that training waited for checkpoints, and in total
};

}  // namespace kinora::core
