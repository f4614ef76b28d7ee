// Names of parameters in the checkpoints of cosmos-predict1 and cosmos-predict2, and in diffusers'.
#pragma once
#include <string>
#include <string_view>

namespace kinora::cosmos {

// The name that diffusers and model/cosmos give to what NVIDIA's checkpoint calls `original`, with or without
// its prefix `net.`. Empty: no parameter of theirs (a buffer of RoPE, a counter, TransformerEngine's
// `_extra_state`). `logvar.` stays as it is: model/cosmos has it, diffusers does not. So does a name of
// neither layout, for whoever loads it to complain of.
std::string diffusers_name(std::string_view original);

}  // namespace kinora::cosmos
