#include "kinora/plugin.hpp"

#include "dit.hpp"

using kinora::dit::Dit;
KINORA_COMPONENT(Dit)
KINORA_PLUGIN(Dit)
