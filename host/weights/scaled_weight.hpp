// Weights in eight bits as published: a tensor of codes (F8_E4M3, F8_E5M2 or I8), and next to it the scales
// that give them their meaning; docs/formats/packed.md lists the names by the programs that write them.
//
// The scales of MX formats (OCP Microscaling 1.0), F8_E8M0 for 32 columns of a row, are written like the others.
//
// A scale belongs to the whole weight ([], [1]), to a row ([R], [R, 1]) or to a block ([R / r, C / c], or musubi's
// [R, C / c, 1]). Scales of activations (scale_input, input_scale, activation_scale, output_scale) do not
// change a weight and are left out, as are the marks scaled_fp8 and X.comfy_quant once they are understood.
// Sources: ComfyUI comfy/ops.py and QUANTIZATION.md, musubi-tuner modules/fp8_optimization_utils.py,
// transformers integrations/finegrained_fp8.py, bitsandbytes functional.py, optimum-quanto tensor/weights.
#pragma once
#include <filesystem>
#include <optional>

#include "host/weights/safetensors.hpp"

namespace kinora::core {

// value = code * (scale * second) * factor in float32, each operation rounded once.
struct ScaledWeight {
  SafeTensor codes;                  // of the weight's shape
  SafeTensor scale;                  // F32, F16, BF16, F64, or F8_E8M0: 2^(code - 127), of which 255 is NaN
  std::optional<SafeTensor> second;  // of one number
  int64_t block_rows = 1,
          block_cols = 1;  // of the weight as a matrix [shape[0], the rest]; the last ones may be cut
  float factor = 1;
};

// Replaces the codes and scales of each such weight by one tensor of the weight's name, float32 without bytes
// and with SafeTensor.scaled. tensors: sorted by name before and after. The size of blocks comes from the
// quantization_config of config.json in `folder`, else from the shapes. KINORA_ERROR_DATA that names the tensor
// if a scale does not fit its weight, has no weight in eight bits, or if a mark or the metadata names a format
// that is not read.
Status join_scaled(std::vector<SafeTensor>& tensors, const SafeMetadata& metadata,
                   const std::filesystem::path& folder, std::string_view origin);

// The bytes of a tensor in its file, which for packed and scaled ones are those of all of their parts.
uint64_t stored_bytes(const SafeTensor& t);

}  // namespace kinora::core
