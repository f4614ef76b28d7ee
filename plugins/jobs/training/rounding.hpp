// Measures the error of the precision's rounding in a network's layers (kinora/abi/rounding.h) in some steps of
// training.
#pragma once
#include <nlohmann/json.hpp>

#include "core/torch/context/network.hpp"
#include "core/torch/context/parallelism.hpp"
#include "kinora/abi/rounding.h"

namespace kinora::core {

class RoundingMeter {
 public:
  // Does nothing if the precision measures nothing.
  RoundingMeter(Network&, const Parallelism&);
  // Before a step's forwards: whether to measure it.
  void begin_step(bool measured);
  // After the step, on every rank: its table becomes the latest, and the line gets the means over layers.
  void end_step(nlohmann::json& line);
  // A row for each layer that some rank has rounded: "layer", and for "activations", "weights" and "gradients" their "sqnr" (signal to
  // quantisation noise in dB; null without an error), "clipped" and "underflowed" (shares of the values).
  // Empty before the first measured step.
  const nlohmann::json& table() const { return table_; }

 private:
  const kinora_rounding* api_;
  const Parallelism& parallel_;
  bool measures_ = false;
  nlohmann::json table_ = nlohmann::json::array();
};

}  // namespace kinora::core
