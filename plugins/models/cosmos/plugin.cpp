#include "kinora/plugin.hpp"

#include "plugins/models/cosmos/cosmos.hpp"

using kinora::cosmos::Cosmos;
KINORA_COMPONENT(Cosmos)
KINORA_PLUGIN(Cosmos)
