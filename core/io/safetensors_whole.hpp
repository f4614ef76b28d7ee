#pragma once
#include "core/io/safetensors.hpp"

namespace kinora::core {

// KINORA_DATA if one of its files became shorter since it was opened: whoever reads what it lost is ended by SIGBUS. So is
// who is reading while it happens; new weights are written beside the old ones and renamed, as write_safetensors() does.
Status check_whole(const Safetensors& file);

}  // namespace kinora::core
