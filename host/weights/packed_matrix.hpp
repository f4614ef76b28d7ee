// Matrices in four bits (NVFP4) as published: several tensors of a file stand for one matrix X.weight, in the layout of
// compressed-tensors or of Four Over Six and LongLive; docs/formats/packed.md lists their tensors. Sources:
// compressed_tensors/compressors/nvfp4 of version 0.20, utils/nvfp4_checkpoint.py of LongLive 2.0,
// fouroversix/model/modules/linear.py.
#pragma once
#include <filesystem>
#include <set>

#include "host/weights/safetensors.hpp"

namespace kinora::core {

// value = q * (s / global) * multiply / divide, each operation rounded once, of the code's number q (E2M1)
// and the scale s (E4M3) of 16 columns of a row.
struct PackedMatrix {
  std::span<const std::byte> codes, scales;  // borrowed
  int64_t rows = 0, cols = 0;                // of codes and scales; at least those of the matrix
  bool swizzled = false;                     // scales in tiles of 128x4, else [rows, cols / 16]
  float global = 1, multiply = 1, divide = 1;
};

// The largest number of scale and code that Four Over Six' rules divide a tensor's amax by; 0 for other names.
float most_of_rule(std::string_view scale_rule);

// Replaces the tensors of each packed matrix by X.weight, float32 [rows, cols] without bytes and with
// SafeTensor.packed. tensors: sorted by name before and after. Four Over Six' rule of scales comes from the
// metadata's "quantization_config", a JSON text, else from that of config.json in `folder`. KINORA_ERROR_DATA
// that names the tensor if a matrix lacks a part, if parts contradict each other, if its X.weight is there
// too, or if the rule is unknown; `tensors` is unspecified then.
Status join_packed(std::vector<SafeTensor>& tensors, const SafeMetadata& metadata,
                   const std::filesystem::path& folder, std::string_view origin);

// Which matrices of a file are rounded to few bits, and how: what a training (trainer_state.cpp) or
// `kinora convert` notes in the metadata, else the packed matrices of the file and Four Over Six'
// configuration.
struct LowWeights {
  std::set<std::string> names;    // X.weight, as in the file
  std::string scale_rule, block;  // "static_6", "16x16"; "" if the file does not say it
};
// KINORA_ERROR_DATA if the metadata's low_weights is not a list of names.
Result<LowWeights> low_weights_of(const Safetensors& file);

}  // namespace kinora::core
