#include "kinora/plugin.hpp"

#include "plugins/models/patch_discriminator/discriminator.hpp"

using kinora::patch_discriminator::PatchDiscriminator;
KINORA_COMPONENT(PatchDiscriminator)
KINORA_PLUGIN(PatchDiscriminator)
