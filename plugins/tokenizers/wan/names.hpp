// Names of the original Wan VAE checkpoints (Wan-Video/Wan2.2, wan/modules/vae2_1.py and vae2_2.py) in those
// of diffusers.
#pragma once
#include <cstdint>
#include <string>

namespace kinora::wan {

// "encoder.downsamples.0.residual.2.weight" -> "encoder.down_blocks.0.conv1.weight", of both families. A name
// that is none of theirs comes back as it is. num_res_blocks tells where a flat list of the 2.1 decoder
// breaks into levels.
std::string diffusers_name(const std::string& original, int64_t num_res_blocks = 2);

}  // namespace kinora::wan
