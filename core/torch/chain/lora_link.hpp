// The link that adds LoRA matrices to the linear layers of an unchanged model, and freezes everything else.
#pragma once
#include <map>

#include "core/torch/chain/end_links.hpp"
#include "core/torch/weights/lora.hpp"
#include "kinora/aten.hpp"
#include "kinora/link.hpp"

namespace kinora::core {

// Above tensor parallelism (which cuts A and B like the weight that they belong to) and below context
// parallelism. FSDP, recompute and precision see A and B as ordinary parameters.
constexpr uint32_t kLoraLevel = (KINORA_LEVEL_CONTEXT + KINORA_LEVEL_TENSOR) / 2;

class LoraLink final : public kinora::Link<at::Tensor> {
 public:
  // Throws kinora::Error(KINORA_ERROR_INVALID) for invalid options.
  LoraLink(LoraOptions options, const SampleKeys& keys);

  // If MODULE.weight is a target, declares its A and B after it, in its block. For a COLUMN weight A is WHOLE
  // and B COLUMN; for a ROW weight A is ROW and B WHOLE. The small tensor between them is of the STREAM
  // either way.
  kinora_param parameter(const kinora_param_spec& spec) override;
  at::Tensor linear(const at::Tensor& x, kinora_param w, kinora_param b, kinora_seq seq) override;
  // Throws KINORA_ERROR_INVALID with the nearest names if no parameter was a target.
  void ready() override;

 private:
  struct Pair {
    kinora_param a, b;
    int64_t in;
    Place place;      // place of the layer's input
    std::string key;  // noise key of its dropout
  };
  // x with dropout applied, in a pass that has a backward.
  at::Tensor dropped(const at::Tensor& x, const Pair& pair, kinora_seq seq);
  LoraOptions options_;
  const SampleKeys& keys_;
  std::map<kinora_param, Pair> pairs_;  // by the weight's number
  std::vector<std::string> modules_;    // all possible targets
};

}  // namespace kinora::core
