// Whether a model under some strategies computes what one process does: output, loss, the gradient of every
// parameter and input, and the parameters after steps of AdamW with clipping.
#pragma once
#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/torch/context/visibility.hpp"
#include "core/torch/weights/lora.hpp"
#include "kinora/aten.hpp"
#include "kinora/link.hpp"
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
  // Links of both networks besides, made for each; null: none.
  std::function<std::unique_ptr<kinora::Link<at::Tensor>>()> more = nullptr;
  // A packed row of latents of these frames, rows and cols for each sample instead.
  std::vector<std::array<int64_t, 3>> packed;
  std::optional<core::LoraOptions> lora;
};

// On every rank of on_ranks(). bound: of the worst difference by the largest number of its kind; 0: 1e-10 in
// float64, else 1e-5.
void equals_one_process(const Rank&, const Trial&, double bound = 0);

}  // namespace kinora::test
