#include "kinora/plugin.hpp"

namespace kinora {
KINORA_PLUGIN(EdmHeun, Euler, Dpmpp2m)
}
