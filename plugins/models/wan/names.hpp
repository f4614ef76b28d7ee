// Names of Wan's own checkpoints.
#pragma once
#include <string>

namespace kinora::wan {

// The name in diffusers, and in model/wan, of the parameter that Wan's own checkpoints name `original`. A name
// that is equal on both sides, or that is not one of Wan's, is returned unchanged. Not for names that are
// already diffusers': "blocks.N.norm2" is another norm there.
std::string diffusers_name(const std::string& original);
// The inverse.
std::string original_name(const std::string& diffusers);

// The same with the prefix "model.diffusion_model.", as in ComfyUI's files with several models; names without
// the prefix do not belong to the model: "".
std::string name_of_comfyui(const std::string& wrapped);
std::string comfyui_name(const std::string& diffusers);

}  // namespace kinora::wan
