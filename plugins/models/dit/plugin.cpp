#include "kinora/plugin.hpp"

#include "plugins/models/dit/block.hpp"

namespace kinora::dit {
KINORA_COMPONENT(Dit)
KINORA_COMPONENT(StDit)
KINORA_PLUGIN(Dit, StDit)
}  // namespace kinora::dit
