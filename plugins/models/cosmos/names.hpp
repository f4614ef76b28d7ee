// Names of parameters in the checkpoints of cosmos-predict1 and cosmos-predict2, and in diffusers'.
#pragma once
#include <string>
#include <string_view>

namespace kinora::cosmos {

enum class Release { predict1, predict2 };

// The name that diffusers and model/cosmos give to what NVIDIA's checkpoint calls `original`, with or without
// its prefix `net.`. Empty: no parameter of theirs (a buffer of RoPE, a counter, TransformerEngine's
// `_extra_state`). `logvar.` stays as it is: model/cosmos has it, diffusers does not. So does a name that is
// not of this release, for whoever loads it to complain of.
std::string diffusers_name(std::string_view original, Release release);
// The way back, with `net.`.
std::string original_name(std::string_view diffusers, Release release);

}  // namespace kinora::cosmos
