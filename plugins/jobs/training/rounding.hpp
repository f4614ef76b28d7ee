// Measures the error of the precision's rounding in a network's layers (kinora/abi/rounding.h) in some steps of
// training.
#pragma once
#include <nlohmann/json.hpp>

#include "core/torch/network/network.hpp"
#include "core/torch/ranks/parallelism.hpp"
#include "kinora/abi/rounding.h"

namespace kinora::core {

class RoundingMeter {
 public:
  // Does nothing if the precision measures nothing.
  RoundingMeter(Network&, const Parallelism&);
  // Before a step's forwards: whether to measure it, as every first one is.
  void begin_step(int64_t step, bool measured);
  // After the step, on every rank: its table becomes the latest, and the line gets the means over layers.
  void end_step(nlohmann::json& line);
  // A row for each layer that some rank has rounded: "layer", and for "activations", "weights" and
  // "gradients" their "sqnr" (signal to quantisation noise in dB; null without an error), "clipped" and
  // "underflowed" (shares of the values). Empty before the first measured step.
  const nlohmann::json& table() const { return table_; }
  // The step of the table, counted from 1.
  int64_t step() const { return step_; }
  // The table and its step, for checkpoints: after the precision's `until` no step makes another.
  nlohmann::json state() const;
  // Does nothing for a state that state() does not make.
  void restore(const nlohmann::json& state);

 private:
  void measure(bool on);
  const kinora_rounding* api_;
  const Parallelism& parallel_;
  bool measures_ = false;
  int64_t step_ = 0, next_ = 0;
  nlohmann::json table_ = nlohmann::json::array();
};

}  // namespace kinora::core
