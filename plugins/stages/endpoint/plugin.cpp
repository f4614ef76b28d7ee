#include "kinora/plugin.hpp"

KINORA_PLUGIN(CaptionEndpoint, CaptionEnhance, FilterEndpoint, FilterOcr, EmbedEndpoint)
