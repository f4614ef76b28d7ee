// Converts names of the original Wan VAE checkpoints (Wan-Video/Wan2.2, wan/modules/vae2_1.py and vae2_2.py) to those
// of diffusers.
#pragma once
#include <cstdint>
#include <string>

namespace kinora::wan {

// "encoder.downsamples.0.residual.2.weight" -> "encoder.down_blocks.0.conv1.weight", for both families. Other
// names are returned unchanged. num_res_blocks determines where a flat list of the 2.1 decoder
// is split into levels.
std::string diffusers_name(const std::string& original, int64_t num_res_blocks = 2);

}  // namespace kinora::wan
