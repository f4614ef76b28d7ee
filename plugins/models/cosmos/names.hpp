// Names of parameters in the checkpoints of cosmos-predict1 and cosmos-predict2, and in diffusers'.
#pragma once
#include <string>
#include <string_view>

namespace kinora::cosmos {

enum class Release { predict1, predict2 };

// The name in diffusers and model/cosmos of the parameter that NVIDIA's checkpoint calls `original`, with or without
// the prefix `net.`. Empty: not a parameter (a buffer of RoPE, a counter, TransformerEngine's
// `_extra_state`). `logvar.` is unchanged: model/cosmos has it, diffusers does not. A name that is
// not of this release is unchanged too, so that loading reports it.
std::string diffusers_name(std::string_view original, Release release);
// The inverse, with `net.`.
std::string original_name(std::string_view diffusers, Release release);

}  // namespace kinora::cosmos
