#include "kinora/plugin.hpp"

KINORA_PLUGIN(EmbedModel, FilterModel)
