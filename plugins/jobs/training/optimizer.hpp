// A training's step: the learning rate, AdamW on leaves, norms of gradients, and exponential moving averages
// of weights. The bits do not depend on the number of threads.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/torch/tensors/parameter.hpp"
#include "core/torch/weights/weights.hpp"

namespace kinora::core {

// Learning rate as a function of the step.
struct Schedule {
  std::string kind = "constant";  // "cosine", "linear" or "wsd"
  double learning_rate = 1e-4;
  double final_rate = 0;  // of all kinds but constant, at `total`
  int64_t warmup = 0;     // steps of a linear rise; step 0 already gets 1 / warmup of it
  int64_t total = 0;      // steps of the run including warmup; required by all kinds but constant
  // wsd (warm-up, stable, decay; Hu et al. 2024, arXiv 2404.06395): decays over the last decay_share of
  // `total`.
  double decay_share = 0.2;
  std::string decay_shape = "1-sqrt";  // Haegele et al. 2024, arXiv 2405.18392; or "linear"
};

// Learning rate of step 0, 1, ...: a pure function.
double rate(const Schedule& schedule, int64_t step);

struct AdamWOptions {
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8;
  double weight_decay = 0.01;
  // Per parameter; null: weight_decay where decays() holds, else 0.
  std::function<double(const Parameter&)> decay;
};

// Whether weight decay applies to a parameter: to matrices and kernels, which are multiplied with
// activations. Not to norms, biases and other vectors (also [C, 1, 1, 1]), and not to tables, whose rows are
// looked up or added (KINORA_ROLE_TABLE).
bool decays(const Parameter&);

class Ema;

// Loshchilov and Hutter 2019, algorithm 2, bias correction as Kingma and Ba 2015. State has the leaf's dtype,
// at least float32.
class AdamW {
 public:
  // The leaves are kept by reference and must outlive it. Frozen ones have no state.
  AdamW(const Parameters& parameters, std::vector<Leaf>& leaves, AdamWOptions options = {});
  // Updates the weights by gradient_factor times the gradients in grad(), and the averages by the new
  // weights: on the CPU in one pass over the memory of each leaf. A leaf without a gradient and its state are
  // unchanged.
  void step(double learning_rate, double gradient_factor = 1, const std::vector<Ema*>& averages = {});
  void zero_grad();
  int64_t steps() const { return steps_; }
  void set_steps(int64_t n) { steps_ = n; }
  // One tensor per leaf (undefined for frozen ones), for assemble() and distribute().
  const std::vector<at::Tensor>& first_moments() const { return m_; }
  const std::vector<at::Tensor>& second_moments() const { return v_; }

 private:
  // Numbers [offset, offset + count) of a flattened leaf, with one weight decay.
  struct Range {
    int64_t offset, count;
    double decay;
  };
  struct Numbers;
  template <class T>
  void step_leaf(size_t leaf, const Numbers&, const std::vector<Ema*>&);
  // libtorch's kernel and one pass per average: for leaves that are not on the CPU.
  void step_elsewhere(size_t leaf, const Numbers&, const std::vector<Ema*>&);
  std::vector<Leaf>& leaves_;
  AdamWOptions options_;
  std::vector<at::Tensor> m_, v_;
  std::vector<std::vector<Range>> ranges_;  // by leaf
  int64_t steps_ = 0;
};

// The gradient's norm, in float64. On several ranks: share is 1 / number of ranks that hold the same numbers,
// and sum adds over all ranks; the result is then the whole gradient's norm.
double gradient_norm(const std::vector<Leaf>& leaves,
                     const std::function<double(const Leaf&, const Piece&)>& share = {},
                     const std::function<double(double)>& sum = {});
// The same for all weights.
double weight_norm(const std::vector<Leaf>& leaves,
                   const std::function<double(const Leaf&, const Piece&)>& share = {},
                   const std::function<double(double)>& sum = {});
// min(1, max_norm / (norm + 1e-6)).
double clip_factor(double norm, double max_norm);

// Average a <- decay a + (1 - decay) w, stored in float32 (float64 for float64 weights). With rise, decay is
// min(decay, (1 + n) / (10 + n)) after n updates, so that early weights are forgotten.
class Ema {
 public:
  Ema(const std::vector<Leaf>& leaves, double decay, bool rise = false);
  void update(const std::vector<Leaf>& leaves);
  // Updates one leaf, for leaves that are not updated together with AdamW.
  void update_leaf(const std::vector<Leaf>& leaves, size_t leaf, double decay);
  // Counts an update that another object makes; returns its decay.
  double next_decay();
  double decay() const { return decay_; }
  // Swaps averages and weights; two calls restore them. For evaluation and generation.
  void swap(std::vector<Leaf>& leaves);
  const std::vector<at::Tensor>& values() const { return values_; }
  int64_t updates() const { return updates_; }
  void set_updates(int64_t n) { updates_ = n; }

 private:
  std::vector<at::Tensor> values_;
  double decay_;
  bool rise_;
  int64_t updates_ = 0;
};

}  // namespace kinora::core
