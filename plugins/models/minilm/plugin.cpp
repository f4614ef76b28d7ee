#include "kinora/plugin.hpp"

#include "minilm.hpp"

using kinora::minilm::MiniLm;
KINORA_COMPONENT(MiniLm)
KINORA_PLUGIN(MiniLm)
