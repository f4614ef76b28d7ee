#include "kinora/plugin.hpp"

KINORA_PLUGIN(DedupSemantic)
