// A network that a training changes, with what follows its weights: its optimizer's states and its averages.
#pragma once
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "core/torch/network/network.hpp"
#include "core/torch/ranks/parallelism.hpp"
#include "core/torch/weights/weights.hpp"
#include "plugins/jobs/training/checkpoint.hpp"
#include "plugins/jobs/training/ema.hpp"
#include "plugins/jobs/training/optimizer.hpp"

namespace kinora::core {

class JobContext;

class Trained {
 public:
  struct How {
    // The log has its loss under this name ("critic") and begins the names of its other figures with it
    // ("critic_gradient_norm"), as a checkpoint those of its tensors. Empty: it is the training's result. "task" is
    // taken.
    std::string name{};
    std::string optimizer = "optimizer";                // the job's slot of it
    std::function<double(int64_t step)> learning_rate;  // of the step after so many
    Decay decay;
    double clip_norm = 0;  // 0: gradients are not clipped
    std::vector<double> ema{};
    // It steps at every such step of the training, and at none of the first ones.
    int64_t every = 1, first_step = 0;
  };
  // The network and the strategies are borrowed.
  Trained(JobContext&, Network&, Parallelism&, How how);
  Trained(const Trained&) = delete;
  Trained& operator=(const Trained&) = delete;

  // Whether it steps after so many steps of the training.
  bool is_due(int64_t step) const { return step >= how_.first_step && (step + 1) % how_.every == 0; }
  // Completes the gradients over the ranks.
  void sum_gradients();
  double gradient_norm() const;
  // One update by the gradients of the step, unless their norm or the loss is not finite. Returns whether it was made.
  bool step(int64_t step, double loss, double norm);
  // The latest steps at which it was due and made no update.
  int64_t skipped_in_a_row() const { return skipped_in_a_row_; }
  // Whether forwards record what the gradients of its weights need.
  void record_gradients(bool on);
  void zero_grad() { optimizer_.zero_grad(); }
  // The averages begin with the network's weights of now; to be called once those are loaded.
  void begin_averages();
  double weight_norm() const;

  const How& how() const { return how_; }
  bool is_result() const { return how_.name.empty(); }
  Network& network() { return network_; }
  Chain& chain() { return network_.chain(); }
  const Chain& chain() const { return network_.chain(); }
  const Optimizer& optimizer() const { return optimizer_; }
  std::vector<Ema>& averages() { return averages_; }
  const std::vector<Ema>& averages() const { return averages_; }

  // Adds this rank's part of its weights, optimizer's states, averages and counts to a checkpoint. The result's are
  // files of their own and members of the state; another network's are tensors of the file `more`, each under the
  // network's name and a dot.
  void save(TrainState&, CheckpointFiles&);
  // Takes them from the checkpoint. Throws Error(KINORA_ERROR_INVALID) if the network or an average is not in it.
  void restore(Checkpoint&, const std::filesystem::path& folder);

 private:
  std::function<double(const Leaf&, const Piece&)> shares() const;
  Holding kept(std::vector<at::Tensor> per_leaf) const;
  Network& network_;
  Parallelism& parallel_;
  const How how_;
  Optimizer optimizer_;
  std::vector<Ema> averages_;
  int64_t skipped_in_a_row_ = 0;
};

}  // namespace kinora::core
