// Names of Wan's own checkpoints.
#pragma once
#include <string>

namespace kinora::wan {

// What diffusers, and model/wan, call the parameter that Wan's own checkpoints name `original`. What is
// called the same on both sides, or is no name of Wan's, comes back as it is. Not for names that are
// diffusers' already: "blocks.N.norm2" is another norm there.
std::string diffusers_name(std::string original);
// The way back.
std::string original_name(std::string diffusers);

// The same behind "model.diffusion_model.", as ComfyUI keeps a model beside others in one file; what is not
// behind it is none of the model's: "".
std::string name_of_comfyui(std::string wrapped);
std::string comfyui_name(std::string diffusers);

}  // namespace kinora::wan
