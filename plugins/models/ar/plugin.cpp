#include "kinora/plugin.hpp"

#include "plugins/models/ar/ar.hpp"

using kinora::ar::Ar;
KINORA_COMPONENT(Ar)
KINORA_PLUGIN(Ar)
