#include "kinora/plugin.hpp"

#include "plugins/models/minilm/minilm.hpp"

using kinora::minilm::MiniLm;
KINORA_COMPONENT(MiniLm)
KINORA_PLUGIN(MiniLm)
