#include "kinora/plugin.hpp"

namespace kinora {
KINORA_PLUGIN(Fp32, Bf16, Fp64)
}
