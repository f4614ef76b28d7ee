#include "kinora/plugin.hpp"

KINORA_PLUGIN(EmbedClassic, ShotsMerge)
