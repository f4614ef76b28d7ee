// Names of Wan's own checkpoints.
#pragma once
#include <string>

namespace kinora::wan {

// What diffusers, and model/wan, call the parameter that Wan's own checkpoints name `original`, alone or
// behind "model.diffusion_model." (ComfyUI). What is called the same on both sides, or is no name of Wan's,
// comes back as it is. Not for names that are diffusers' already: "blocks.N.norm2" is another norm there.
std::string diffusers_name(std::string original);

}  // namespace kinora::wan
