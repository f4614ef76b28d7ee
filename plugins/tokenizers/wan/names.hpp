// Converts names of the original Wan VAE checkpoints (Wan-Video/Wan2.2, wan/modules/vae2_1.py and vae2_2.py) to those
// of diffusers.
#pragma once
#include <string>

namespace kinora::wan {

// "encoder.downsamples.0.residual.2.weight" -> "encoder.down_blocks.0.conv1.weight", for both families. Other
// names are returned unchanged.
std::string diffusers_name(const std::string& original);

}  // namespace kinora::wan
