// Which clips of a table of data training and its validation take.
#pragma once
#include <string>
#include <vector>

#include "plugins/jobs/loading/data_order.hpp"

namespace kinora::core {

struct LiveSplit {
  double held_out;  // share of the clips that are held out of training, by a hash of their keys; 0: none

  // Whether training, or the validation, takes clips with this key.
  bool accepts(bool of_validation, const std::string& key) const;
  // Slots of the first `most` clips of the order that are held out, each another clip; of the first of all
  // without held-out ones. Throws Error(KINORA_ERROR_INVALID) if there are none.
  std::vector<uint64_t> validation(DataOrder& order, size_t most) const;
};

}  // namespace kinora::core
