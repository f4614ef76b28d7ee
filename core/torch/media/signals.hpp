// Named conditioning signals that clips carry in their metadata: numbers, and lists of numbers.
#pragma once
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/plugin/options.hpp"
#include "core/torch/weights/safe_tensors.hpp"

namespace kinora::core {

class Signals {
 public:
  // names: members of each clip's JSON. every: only every n-th frame of a video is used, so fps is divided by
  // it. Throws Error(KINORA_ERROR_INVALID) for a name that the latent cache already uses.
  Signals(std::vector<std::string> names, int64_t every);

  // float32, [] for a number and [n] for a list. Nothing, with the reason in `why`, for a clip that lacks a
  // signal or has a list of another length than earlier clips.
  std::optional<NamedTensors> of(const nlohmann::json& facts, std::string& why);

 private:
  std::vector<std::string> names_;
  double every_;
  std::map<std::string, size_t> lengths_;  // lengths of the lists seen so far
};

// The names in a model's option `signals` ("NAME:..."), if it has one: inputs that a manifest cannot list.
std::set<std::string> signals_of(const Options& model);

// Signals given to a generation: "fps=12", "camera=0.1,0,-2".
using GivenSignals = std::map<std::string, std::vector<double>>;
// Throws Error(KINORA_ERROR_INVALID) that names the invalid entry.
GivenSignals given_signals(const std::vector<std::string>& texts);
// Parses an object such as {"fps": 12, "camera": [0.1, 0, -2]}; nothing if it is not one.
std::optional<GivenSignals> given_signals(const nlohmann::json& object);
// Inverse, with every digit of each number.
std::vector<std::string> texts_of(const GivenSignals& given);

}  // namespace kinora::core
