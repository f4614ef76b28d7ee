#include "kinora/plugin.hpp"

#include "plugins/tokenizers/cosmos/cosmos.hpp"

using kinora::cosmos::CosmosTokenizer;
KINORA_COMPONENT(CosmosTokenizer)
KINORA_PLUGIN(CosmosTokenizer)
