// Whether a model under some strategies computes what one process does: output, loss, the gradient of every
// parameter and input, and the parameters after steps of AdamW with clipping.
#pragma once
#include <string>
#include <vector>

#include "core/torch/context/visibility.hpp"
#include "tests/support/ranks.hpp"

namespace kinora::test {

struct Trial {
  std::string parallel;  // as in a job: "['ddp']", "[{ use = 'tp', size = 2 }]"
  std::string model =
      "{ use = 'dit', in_channels = 2, out_channels = 2, text_size = 12, layers = 2, heads = 4, "
      "head_size = 12, adaln_lora = 4 }";
  core::Frames rule;  // who sees whom; 2 streams: the latent's frames are clean ones, then as many noisy ones
  int64_t each = 1;   // samples of a microbatch of a rank that holds samples of its own
  int64_t micro = 1;  // microbatches a step
  int64_t frames = 4, rows = 4, cols = 6;  // of the latent, of 2 channels
  int64_t text = 5;                        // tokens; 0: the model reads none
  std::string precision = "fp64";
  int64_t steps = 3;
  std::vector<std::string> lora;  // only matrices beside these modules are trained; empty: the model
};

// On every rank of on_ranks(). bound: of the worst difference by the largest number of its kind; 0: 1e-10 in
// float64, else 1e-5.
void equals_one_process(const Rank&, const Trial&, double bound = 0);

}  // namespace kinora::test
