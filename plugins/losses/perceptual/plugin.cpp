#include "kinora/plugin.hpp"

#include "plugins/losses/perceptual/lpips.hpp"

using kinora::perceptual::Lpips;
KINORA_COMPONENT(Lpips)
KINORA_PLUGIN(Lpips)
