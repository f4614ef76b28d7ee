#include "kinora/plugin.hpp"

#include "plugins/models/wan/wan.hpp"

using kinora::wan::Wan;
KINORA_COMPONENT(Wan)
KINORA_PLUGIN(Wan)
