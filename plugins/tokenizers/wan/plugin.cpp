#include "kinora/plugin.hpp"

#include "plugins/tokenizers/wan/wan.hpp"

using kinora::wan::WanTokenizer;
KINORA_COMPONENT(WanTokenizer)
KINORA_PLUGIN(WanTokenizer)
