// The training loop that all training jobs share: gradients of microbatches, clipping, AdamW, averaging,
// checkpoints, resume.
#pragma once
#include <functional>

#include "core/jobs/training.hpp"
#include "core/torch/checkpoint.hpp"
#include "core/torch/network.hpp"
#include "core/torch/optimizer.hpp"
#include "core/torch/parallelism.hpp"

namespace kinora::core {

// What one microbatch gives: the sum of its samples' losses, divided by the step's global number of samples,
// with its graph; and figures to log, added up the same way.
struct MicroLoss {
  at::Tensor loss;
  std::map<std::string, double> figures;
};

class Trainer {
 public:
  // Loads the job's latest checkpoint if there is one, else options.weights.
  Trainer(JobContext&, Network&, Parallelism&, const OptimizerOptions&);

  // micro_loss(first, count): samples [first, first + count) in the global order of all samples ever drawn,
  // of which this rank computes what it is given. Ends with options.steps done, with Error(KINORA_CANCELLED)
  // after a checkpoint, or with Error(KINORA_FAILED) when options.max_skipped steps in a row were not finite.
  void run(const std::function<MicroLoss(int64_t first, int64_t count)>& micro_loss);

  // Writes weights.safetensors of the job's folder: the averages if the run keeps them, else the weights.
  void save_weights();
  // The averages become the network's weights, for what comes after training.
  void use_average();
  // Of the last finite step, also when it was done before a resume.
  double last_loss() const { return loss_; }
  // Steps that changed nothing, since their loss or gradient was not finite.
  int64_t skipped() const { return skipped_; }
  double seconds_per_step() const { return seconds_per_step_; }

 private:
  MicroLoss gradients(int64_t step, const std::function<MicroLoss(int64_t, int64_t)>& micro_loss);
  void update(int64_t step, nlohmann::json& line);
  void skip(int64_t step, nlohmann::json& line);
  void save(int64_t steps_done);
  void restore();
  JobContext& context_;
  Network& network_;
  Parallelism& parallel_;
  OptimizerOptions options_;
  AdamW optimizer_;
  std::unique_ptr<Ema> ema_;
  int64_t step_ = 0, skipped_ = 0, in_a_row_ = 0;
  double loss_ = 0, seconds_per_step_ = 0;
};

}  // namespace kinora::core
