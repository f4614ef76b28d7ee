#include "kinora/plugin.hpp"

#include "plugins/models/dit/dit.hpp"

using kinora::dit::Dit;
KINORA_COMPONENT(Dit)
KINORA_PLUGIN(Dit)
