// Exponential moving averages of weights.
#pragma once
#include <cstdint>
#include <vector>

#include "core/torch/tensors/parameter.hpp"

namespace kinora::core {

// dtype of the states and averages of a leaf: float64 for float64 leaves, else float32.
at::ScalarType state_dtype(const at::Tensor& leaf);

// Average a <- decay a + (1 - decay) w, stored in float32 (float64 for float64 weights). With rise, decay is
// min(decay, (1 + n) / (10 + n)) after n updates, so that early weights are forgotten. Frozen leaves have no average:
// theirs would be their value.
class Ema {
 public:
  Ema(const std::vector<Leaf>& leaves, double decay, bool rise = false);
  void update(const std::vector<Leaf>& leaves);
  // Updates one leaf, for leaves that are not updated by an optimizer.
  void update_leaf(const std::vector<Leaf>& leaves, size_t leaf, double decay);
  // Counts an update that another object makes; returns its decay.
  double next_decay();
  double decay() const { return decay_; }
  // Swaps averages and weights; two calls restore them. For evaluation and generation.
  void swap(std::vector<Leaf>& leaves);
  // The averages by leaf; undefined for frozen ones.
  const std::vector<at::Tensor>& values() const { return values_; }
  // The averages by leaf, the leaf itself for frozen ones: the weights of an averaged network, for its files.
  std::vector<at::Tensor> weights(const std::vector<Leaf>& leaves) const;
  int64_t updates() const { return updates_; }
  void set_updates(int64_t n) { updates_ = n; }

 private:
  std::vector<at::Tensor> values_;
  double decay_;
  bool rise_;
  int64_t updates_ = 0;
};

// While it lives, the first averages are the weights; without averages the weights stay.
class Averaged {
 public:
  Averaged(std::vector<Ema>& averages, std::vector<Leaf>& leaves) : averages_(averages), leaves_(leaves) {
    swap();
  }
  ~Averaged() { swap(); }
  Averaged(const Averaged&) = delete;
  Averaged& operator=(const Averaged&) = delete;

 private:
  void swap() {
    if (!averages_.empty()) averages_[0].swap(leaves_);
  }
  std::vector<Ema>& averages_;
  std::vector<Leaf>& leaves_;
};

}  // namespace kinora::core
