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
  // names: members of each clip's JSON. every: of a film's frames only so many are used, so fps is divided by
  // it. Throws Error(KINORA_INVALID) for a name that the latent cache gives to something else.
  Signals(std::vector<std::string> names, int64_t every);

  // float32, [] of a number and [n] of a list. Nothing, with the reason in `why`, for a clip that lacks one
  // of them, or has a list of another length than the clips before.
  std::optional<NamedTensors> of(const nlohmann::json& facts, std::string& why);

 private:
  std::vector<std::string> names_;
  double every_;
  std::map<std::string, size_t> lengths_;  // of the lists that were met
};

// The names in a model's option `signals` ("NAME:..."), if it has one: inputs that a manifest cannot list.
std::set<std::string> signals_of(const Options& model);

// Signals that a generation is given: "fps=12", "camera=0.1,0,-2".
using GivenSignals = std::map<std::string, std::vector<double>>;
// Throws Error(KINORA_INVALID) that names the entry.
GivenSignals given_signals(const std::vector<std::string>& texts);
// From an object such as {"fps": 12, "camera": [0.1, 0, -2]}; nothing if it is none.
std::optional<GivenSignals> given_signals(const nlohmann::json& object);
// The way back, every number with all its digits.
std::vector<std::string> texts_of(const GivenSignals& given);

}  // namespace kinora::core
