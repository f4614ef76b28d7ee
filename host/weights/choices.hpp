// The words by which a user chooses a form of weights.
#pragma once
#include <string>
#include <vector>

namespace kinora::core {

const std::vector<std::string> kDtypeNames{"bf16", "fp16", "fp32"};
const std::vector<std::string> kAdapterForms{"diffusers", "comfyui", "peft"};
// Layouts, rules and blocks of matrices in four bits; the first of each is the default.
const std::vector<std::string> kPackedFormats{"compressed-tensors", "longlive"};
const std::vector<std::string> kScaleRules{"mse", "mae", "abs_max", "static_6", "static_4", "none"};
const std::vector<std::string> kScaleBlocks{"1x16", "16x16"};

}  // namespace kinora::core
