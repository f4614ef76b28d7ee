// The outputs of an encode job, before or after it has run, and whether a model takes them.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "core/run/job_check.hpp"
#include "core/torch/network/model.hpp"

namespace kinora::core {

// Form of the samples that an encode job writes. Unknown values are 0.
struct Encoded {
  std::string tokenizer;
  std::vector<int64_t> shape;  // [C, t, h, w]; for codes [t, h, w]
  int64_t codes = 0;           // size of the vocabulary
  int64_t text_size = 0;
  size_t sizes = 1;  // of windows; `shape` is of the first
  bool of_codes() const { return shape.size() == 3; }
};
// The data of the earlier encode job, or what its options will make if it has not run. Nothing if there is no
// such job, or if this cannot be known: that job's own check reports why.
std::optional<Encoded> encoded_for(const JobCheck&);

// Runs one forward of a model on samples of this shape, with the job's inputs, and reports the problems that
// the model finds. by_frame: with one noise level per frame.
void check_forward(JobCheck&, Model& model, const ComponentUse&, const Encoded&, bool noisy,
                   bool by_frame = false);

}  // namespace kinora::core
