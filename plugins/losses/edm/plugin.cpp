#include "kinora/plugin.hpp"

namespace kinora {
KINORA_PLUGIN(Edm, RectifiedFlow)
}
