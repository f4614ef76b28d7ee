// AdamW on leaves, gradient norm, learning rates and the exponential moving average of weights.
// Deterministic.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/torch/parameter.hpp"
#include "core/torch/weights.hpp"

namespace kinora::core {

struct AdamWOptions {
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8;
  double weight_decay = 0.01;
  // Per parameter; null: weight_decay for tensors of two dimensions and more, 0 for norms, biases and other
  // vectors.
  std::function<double(const Parameter&)> decay;
};

// Loshchilov and Hutter 2019, algorithm 2, bias correction as Kingma and Ba 2015. State has the leaf's dtype,
// at least float32.
class AdamW {
 public:
  // The leaves are kept by reference and outlive it. Frozen ones have no state.
  AdamW(const Parameters& parameters, std::vector<Leaf>& leaves, AdamWOptions options = {});
  // One update by the gradients in grad(); a leaf without one is left alone, its state too.
  void step(double learning_rate);
  void zero_grad();
  int64_t steps() const { return steps_; }
  void set_steps(int64_t n) { steps_ = n; }
  // One tensor a leaf (undefined for frozen ones): what assemble() and distribute() take.
  const std::vector<at::Tensor>& first_moments() const { return m_; }
  const std::vector<at::Tensor>& second_moments() const { return v_; }

 private:
  // Numbers [offset, offset + count) of a flattened leaf, with one weight decay.
  struct Range {
    int64_t offset, count;
    double decay;
  };
  std::vector<Leaf>& leaves_;
  AdamWOptions options_;
  std::vector<at::Tensor> m_, v_;
  std::vector<std::vector<Range>> ranges_;  // by leaf
  int64_t steps_ = 0;
};

// Square sum of a leaf's gradient, in float64. share(piece): 1 / number of ranks that hold those numbers
// (null: 1), so that the square root of this sum over all leaves and ranks is the norm of the whole gradient.
double square_sum(const Leaf& leaf, const std::function<double(const Piece&)>& share = {});
// The whole gradient's norm in one process, or with `sum` over the world.
double gradient_norm(const std::vector<Leaf>& leaves,
                     const std::function<double(const Leaf&, const Piece&)>& share = {},
                     const std::function<double(double)>& sum = {});
// Scales every gradient by min(1, max_norm / (norm + 1e-6)); returns the factor.
double clip_gradients(const std::vector<Leaf>& leaves, double norm, double max_norm);

struct Schedule {
  std::string kind = "constant";  // or "cosine"
  double learning_rate = 1e-4;
  double final_rate = 0;  // of cosine, at `total`
  int64_t warmup = 0;     // steps of a linear rise; step 0 already gets 1 / warmup of it
  int64_t total = 0;      // steps of the run, warmup included; cosine needs it
};
// Learning rate of step 0, 1, ...: a pure function.
double rate(const Schedule& schedule, int64_t step);

// Average a <- decay a + (1 - decay) w, kept in float32 (float64 for float64 weights). With rise, decay is
// min(decay, (1 + n) / (10 + n)) after n updates, so that early weights are forgotten.
class Ema {
 public:
  Ema(const std::vector<Leaf>& leaves, double decay, bool rise = false);
  void update(const std::vector<Leaf>& leaves);
  // Exchanges averages and weights; twice is nothing. For evaluation and generation.
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
