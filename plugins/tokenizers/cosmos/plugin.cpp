#include "kinora/plugin.hpp"

#include "cosmos.hpp"

using kinora::cosmos::CosmosTokenizer;
KINORA_COMPONENT(CosmosTokenizer)
KINORA_PLUGIN(CosmosTokenizer)
