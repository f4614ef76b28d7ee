// Named conditioning signals that clips carry in their metadata: numbers, and lists of numbers.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

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

}  // namespace kinora::core
